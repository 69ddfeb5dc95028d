------------------------------ MODULE hpsearch ------------------------------
(***************************************************************************)
(* How drivers of one study, of which one at a time holds its lease, ask   *)
(* for trials, announce and submit jobs, and tell what these came to, while *)
(* drivers die or are suspended and jobs crash or go on unseen.            *)
(* README.md says which function of the code each action is.               *)
(*                                                                         *)
(* A job trains one trial. It is known by its number: the n-th that was    *)
(* announced. The token of its attempt is <<n, token of the announcing     *)
(* driver's lease>>, which no other announcement has.                      *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Drivers,
    Budget,       \* trials that the study may ask for
    NumJobs,      \* jobs at once
    MaxDeaths,    \* of drivers
    MaxExpiries,  \* of leases
    MaxLosses,    \* of jobs that crash or vanish
    \* What the protocol rests on; the model checker is also shown that each is needed.
    FencesEvents,     \* an event is written only with the newest lease
    ChecksFiles,      \* a driver looks at its lease before it writes a trial's files
    ChecksAsks,       \* and before it creates a trial in Optuna's tables
    FollowsOptuna     \* what Optuna was told stands, whatever is seen later

VARIABLES
    lease,        \* [token, isValid]
    log,          \* the events, folded: see Nothing
    optuna,       \* by trial: "none", "running", "finished" or "failed"
    value,        \* by trial: the job whose value Optuna was told, 0 if none
    control,      \* by trial: the token in control.json
    stopped,      \* trials whose control.json says that they are told as failed
    cluster,      \* by job: "none", "runs", "unseen" (vanished, yet it trains) or "gone"
    results,      \* tokens of the attempts that wrote a result
    pc, held, view, work,  \* of each driver: where it stands, the token of its lease, what it
                           \* knows of the log, and the trial and job that it is busy with
    numTold,      \* by trial: events that say it was told
    numSubmitted, \* by job
    wasFenced,    \* whether an event was written without the newest lease
    wentBack,     \* whether a control.json went back to an earlier attempt
    deaths, expiries, losses

vars == <<lease, log, optuna, value, control, stopped, cluster, results, pc, held, view, work,
          numTold, numSubmitted, wasFenced, wentBack, deaths, expiries, losses>>
drivers == <<pc, held, view, work>>
files == <<control, stopped, results>>
faults == <<deaths, expiries, losses>>

Trials == 1..(Budget + 1)  \* the last of them must never be
Jobs == 1..(Budget + MaxLosses + MaxDeaths + MaxExpiries)
None == <<0, 0>>

-----------------------------------------------------------------------------
(* The event log, folded (study/state.py). *)

Nothing == [asked |-> 0, jobs |-> <<>>, told |-> [t \in Trials |-> "no"],
            job |-> [t \in Trials |-> 0]]
(* jobs: of each the trial, the token, whether it lives, whether its submission was confirmed;
   told: how a trial ended; job: whose value was told *)

Live(x) == {j \in DOMAIN x.jobs : x.jobs[j].lives}
Waiting(x) == {t \in 1..x.asked : x.told[t] = "no" /\ ~\E j \in Live(x) : x.jobs[j].trial = t}
Newest(x, t) ==
    LET all == {j \in DOMAIN x.jobs : x.jobs[j].trial = t}
    IN  IF all = {} THEN 0 ELSE CHOOSE j \in all : \A i \in all : i <= j
TokenOf(x, j) == <<j, x.jobs[j].by>>

Asked(x) == [x EXCEPT !.asked = @ + 1]
Announced(x, t, by) ==
    [x EXCEPT !.jobs = Append(@, [trial |-> t, by |-> by, lives |-> TRUE, isKnown |-> FALSE])]
Confirmed(x, j) == IF j \in DOMAIN x.jobs THEN [x EXCEPT !.jobs[j].isKnown = TRUE] ELSE x
Ended(x, j) == IF j \in DOMAIN x.jobs THEN [x EXCEPT !.jobs[j].lives = FALSE] ELSE x
Told(x, t, how, j) ==
    [Ended(x, j) EXCEPT !.told[t] = how, !.job[t] = IF how = "finished" THEN j ELSE 0]

-----------------------------------------------------------------------------
Init ==
    /\ lease = [token |-> 0, isValid |-> FALSE]
    /\ log = Nothing
    /\ optuna = [t \in Trials |-> "none"] /\ value = [t \in Trials |-> 0]
    /\ control = [t \in Trials |-> None] /\ stopped = {}
    /\ cluster = [j \in Jobs |-> "none"] /\ results = {}
    /\ pc = [d \in Drivers |-> "off"] /\ held = [d \in Drivers |-> 0]
    /\ view = [d \in Drivers |-> Nothing] /\ work = [d \in Drivers |-> None]
    /\ numTold = [t \in Trials |-> 0] /\ numSubmitted = [j \in Jobs |-> 0]
    /\ wasFenced = FALSE /\ wentBack = FALSE
    /\ deaths = 0 /\ expiries = 0 /\ losses = 0

(* The lease. *)

Holds(d) == held[d] = lease.token

Off(d) ==
    /\ pc' = [pc EXCEPT ![d] = "off"]
    /\ held' = [held EXCEPT ![d] = 0]
    /\ view' = [view EXCEPT ![d] = Nothing]
    /\ work' = [work EXCEPT ![d] = None]

Acquire(d) ==
    /\ pc[d] = "off" /\ ~lease.isValid
    /\ lease' = [token |-> lease.token + 1, isValid |-> TRUE]
    /\ held' = [held EXCEPT ![d] = lease.token + 1]
    /\ view' = [view EXCEPT ![d] = log]
    /\ pc' = [pc EXCEPT ![d] = "idle"]
    /\ UNCHANGED <<log, optuna, value, files, cluster, work, numTold, numSubmitted, wasFenced,
                   wentBack, faults>>

Expire ==  \* of a driver that is suspended, or has died
    /\ lease.isValid /\ expiries < MaxExpiries
    /\ lease' = [lease EXCEPT !.isValid = FALSE]
    /\ expiries' = expiries + 1
    /\ UNCHANGED <<log, optuna, value, files, cluster, drivers, numTold, numSubmitted, wasFenced,
                   wentBack, deaths, losses>>

Renew(d) ==  \* also of a lease that has expired, if no other driver has taken it
    /\ pc[d] = "idle" /\ Holds(d) /\ ~lease.isValid
    /\ lease' = [lease EXCEPT !.isValid = TRUE]
    /\ UNCHANGED <<log, optuna, value, files, cluster, drivers, numTold, numSubmitted, wasFenced,
                   wentBack, faults>>

Lose(d) ==  \* a look at the lease finds another driver's
    /\ pc[d] \notin {"off", "written"} /\ ~Holds(d)
    /\ Off(d)
    /\ UNCHANGED <<lease, log, optuna, value, files, cluster, numTold, numSubmitted, wasFenced,
                   wentBack, faults>>

Die(d) ==  \* its lease need not expire if it is known to be dead
    /\ pc[d] # "off" /\ deaths < MaxDeaths
    /\ Off(d)
    /\ deaths' = deaths + 1
    /\ lease' = IF Holds(d) THEN [lease EXCEPT !.isValid = FALSE] ELSE lease
    /\ UNCHANGED <<log, optuna, value, files, cluster, numTold, numSubmitted, wasFenced, wentBack,
                   expiries, losses>>

(* What a driver writes. *)

Records(d, e(_)) ==  \* an event, in a transaction that looks at the lease
    /\ FencesEvents => Holds(d)
    /\ log' = e(log)
    /\ view' = [view EXCEPT ![d] = e(view[d])]
    /\ wasFenced' = (wasFenced \/ ~Holds(d))

(* Asking. *)

Create(d) ==
    /\ pc[d] = "idle" /\ view[d].asked < Budget
    /\ ChecksAsks => Holds(d)
    /\ LET t == view[d].asked + 1
           new == CHOOSE n \in Trials : optuna[n] = "none" /\ \A m \in 1..(n - 1) : optuna[m] # "none"
       IN  IF optuna[t] = "none" \/ Holds(d)  \* what one created that died is taken up
           THEN optuna' = [optuna EXCEPT ![t] = IF @ = "none" THEN "running" ELSE @]
           ELSE /\ \E n \in Trials : optuna[n] = "none"
                /\ optuna' = [optuna EXCEPT ![new] = "running"]
    /\ pc' = [pc EXCEPT ![d] = "created"]
    /\ UNCHANGED <<lease, log, value, files, cluster, held, view, work, numTold, numSubmitted,
                   wasFenced, wentBack, faults>>

RecordAsked(d) ==
    /\ pc[d] = "created"
    /\ Records(d, Asked)
    /\ pc' = [pc EXCEPT ![d] = "idle"]
    /\ UNCHANGED <<lease, optuna, value, files, cluster, held, work, numTold, numSubmitted,
                   wentBack, faults>>

(* Announcing and submitting. *)

Announce(d, t) ==
    /\ pc[d] = "idle" /\ t \in Waiting(view[d])
    /\ Cardinality(Live(view[d])) < NumJobs
    /\ Len(view[d].jobs) + 1 \in Jobs
    /\ LET e(x) == Announced(x, t, held[d]) IN Records(d, e)
    /\ work' = [work EXCEPT ![d] = <<t, Len(view[d].jobs) + 1>>]
    /\ pc' = [pc EXCEPT ![d] = "announced"]
    /\ UNCHANGED <<lease, optuna, value, files, cluster, held, numTold, numSubmitted, wentBack,
                   faults>>

WriteFiles(d) ==
    /\ pc[d] = "announced"
    /\ ChecksFiles => Holds(d)
    /\ LET t == work[d][1] IN
       /\ control' = [control EXCEPT ![t] = <<work[d][2], held[d]>>]
       /\ stopped' = stopped \ {t}
       /\ wentBack' = (wentBack \/ control[t][1] > work[d][2])
    /\ pc' = [pc EXCEPT ![d] = "written"]
    /\ UNCHANGED <<lease, log, optuna, value, results, cluster, held, view, work, numTold,
                   numSubmitted, wasFenced, faults>>

Submit(d) ==  \* sbatch looks at no lease
    /\ pc[d] = "written"
    /\ LET j == work[d][2] IN
       /\ cluster' = [cluster EXCEPT ![j] = "runs"]
       /\ numSubmitted' = [numSubmitted EXCEPT ![j] = @ + 1]
    /\ pc' = [pc EXCEPT ![d] = "submitted"]
    /\ UNCHANGED <<lease, log, optuna, value, files, held, view, work, numTold, wasFenced, wentBack,
                   faults>>

RecordSubmitted(d) ==
    /\ pc[d] = "submitted"
    /\ LET e(x) == Confirmed(x, work[d][2]) IN Records(d, e)
    /\ pc' = [pc EXCEPT ![d] = "idle"] /\ work' = [work EXCEPT ![d] = None]
    /\ UNCHANGED <<lease, optuna, value, files, cluster, held, numTold, numSubmitted, wentBack,
                   faults>>

Confirm(d, j) ==  \* of a job that another driver submitted and did not live to confirm
    /\ pc[d] = "idle" /\ j \in Live(view[d]) /\ ~view[d].jobs[j].isKnown
    /\ cluster[j] # "none"
    /\ LET e(x) == Confirmed(x, j) IN Records(d, e)
    /\ UNCHANGED <<lease, optuna, value, files, cluster, pc, held, work, numTold, numSubmitted,
                   wentBack, faults>>

Withdraw(d, j) ==  \* of a job that the cluster does not know
    /\ pc[d] = "idle" /\ j \in Live(view[d]) /\ ~view[d].jobs[j].isKnown
    /\ cluster[j] = "none"
    /\ LET e(x) == Ended(x, j) IN Records(d, e)
    /\ UNCHANGED <<lease, optuna, value, files, cluster, pc, held, work, numTold, numSubmitted,
                   wentBack, faults>>

CancelStray(d, j) ==  \* that runs and is not, or no more, announced
    /\ pc[d] = "idle" /\ Holds(d)
    /\ cluster[j] = "runs" /\ j \notin Live(view[d])
    /\ cluster' = [cluster EXCEPT ![j] = "gone"]
    /\ UNCHANGED <<lease, log, optuna, value, files, drivers, numTold, numSubmitted, wasFenced,
                   wentBack, faults>>

(* Telling. *)

HasResult(d, j) == TokenOf(view[d], j) \in results
IsLost(d, j) == view[d].jobs[j].isKnown /\ cluster[j] \in {"gone", "unseen"} /\ ~HasResult(d, j)

Requeue(d, j) ==  \* it goes on in another attempt
    /\ pc[d] = "idle" /\ j \in Live(view[d]) /\ IsLost(d, j)
    /\ LET e(x) == Ended(x, j) IN Records(d, e)
    /\ UNCHANGED <<lease, optuna, value, files, cluster, pc, held, work, numTold, numSubmitted,
                   wentBack, faults>>

Tell(d, j) ==  \* Optuna; a trial that was told stays as it is
    /\ pc[d] = "idle" /\ j \in Live(view[d]) /\ (HasResult(d, j) \/ IsLost(d, j)) /\ Holds(d)
    /\ LET t == view[d].jobs[j].trial
           late == FollowsOptuna /\ optuna[t] = "failed"
           how == IF HasResult(d, j) /\ ~late THEN "finished" ELSE "failed"
       IN  /\ IF optuna[t] = "running"
              THEN /\ optuna' = [optuna EXCEPT ![t] = how]
                   /\ value' = [value EXCEPT ![t] = IF how = "finished" THEN j ELSE 0]
              ELSE UNCHANGED <<optuna, value>>
           /\ work' = [work EXCEPT ![d] = <<t, j>>]
           /\ pc' = [pc EXCEPT ![d] = how]
    /\ UNCHANGED <<lease, log, files, cluster, held, view, numTold, numSubmitted, wasFenced,
                   wentBack, faults>>

Stop(d) ==  \* attempts that may still train; one that finished has written its result last
    /\ pc[d] = "failed" /\ work[d][1] \notin stopped /\ Holds(d)
    /\ stopped' = stopped \cup {work[d][1]}
    /\ UNCHANGED <<lease, log, optuna, value, control, results, cluster, drivers, numTold,
                   numSubmitted, wasFenced, wentBack, faults>>

RecordTold(d) ==
    /\ pc[d] = "finished" \/ (pc[d] = "failed" /\ work[d][1] \in stopped)
    /\ LET e(x) == Told(x, work[d][1], pc[d], work[d][2]) IN Records(d, e)
    /\ numTold' = [numTold EXCEPT ![work[d][1]] = @ + 1]
    /\ pc' = [pc EXCEPT ![d] = "idle"] /\ work' = [work EXCEPT ![d] = None]
    /\ UNCHANGED <<lease, optuna, value, files, cluster, held, numSubmitted, wentBack, faults>>

(* Jobs. *)

Train(j) ==  \* to the end of the attempt; one that was replaced writes nothing
    /\ cluster[j] \in {"runs", "unseen"}
    /\ LET t == log.jobs[j].trial IN
       results' = IF control[t] = TokenOf(log, j) /\ t \notin stopped
                  THEN results \cup {TokenOf(log, j)} ELSE results
    /\ cluster' = [cluster EXCEPT ![j] = "gone"]
    /\ UNCHANGED <<lease, log, optuna, value, control, stopped, drivers, numTold, numSubmitted,
                   wasFenced, wentBack, faults>>

Crash(j) ==
    /\ cluster[j] = "runs" /\ losses < MaxLosses
    /\ \E after \in {"gone", "unseen"} : cluster' = [cluster EXCEPT ![j] = after]
    /\ losses' = losses + 1
    /\ UNCHANGED <<lease, log, optuna, value, files, drivers, numTold, numSubmitted, wasFenced,
                   wentBack, deaths, expiries>>

-----------------------------------------------------------------------------
Step(d) ==
    \/ Acquire(d) \/ Renew(d) \/ Lose(d)
    \/ Create(d) \/ RecordAsked(d)
    \/ \E t \in Trials : Announce(d, t)
    \/ WriteFiles(d) \/ Submit(d) \/ RecordSubmitted(d)
    \/ \E j \in Jobs : Confirm(d, j) \/ Withdraw(d, j) \/ CancelStray(d, j)
    \/ \E j \in Jobs : Requeue(d, j) \/ Tell(d, j)
    \/ Stop(d) \/ RecordTold(d)

Next ==
    \/ \E d \in Drivers : Step(d) \/ Die(d)
    \/ Expire
    \/ \E j \in Jobs : Train(j) \/ Crash(j)

Spec == Init /\ [][Next]_vars
        /\ \A d \in Drivers : WF_vars(Step(d))
        /\ \A j \in Jobs : WF_vars(Train(j))

-----------------------------------------------------------------------------
(* What must hold. *)

OneDriver == Cardinality({d \in Drivers : pc[d] # "off" /\ Holds(d)}) <= 1

FencedDriversAreSilent == ~wasFenced

ToldAtMostOnce == \A t \in Trials : numTold[t] <= 1

LogAndOptunaAgree ==
    \A t \in Trials : log.told[t] # "no" => optuna[t] = log.told[t] /\ value[t] = log.job[t]

ToldByTheNewestAttempt ==
    \A t \in Trials : log.told[t] = "finished" =>
        log.job[t] = Newest(log, t) /\ TokenOf(log, log.job[t]) \in results

SubmittedAtMostOnce == \A j \in Jobs : numSubmitted[j] <= 1

AnnouncedBeforeSubmitted == \A j \in Jobs : numSubmitted[j] > 0 => j \in DOMAIN log.jobs

ControlNeverGoesBack == ~wentBack

BudgetHolds ==
    /\ log.asked <= Budget /\ optuna[Budget + 1] = "none"
    /\ Cardinality(Live(log)) <= NumJobs

(* Whatever happens, in the end every trial is told. *)
EverythingIsTold == <>(\A t \in 1..Budget : log.told[t] # "no")

(* Drivers are alike; for the invariants alone. *)
Symmetry == Permutations(Drivers)
=============================================================================
