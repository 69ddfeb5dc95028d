BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE hpsearch_checkpoints (
	id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	trial INTEGER NOT NULL, 
	step BIGINT NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	operator VARCHAR(64) NOT NULL, 
	adopted BOOLEAN, 
	seed BIGINT NOT NULL, 
	changes TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (study_id, trial, step), 
	FOREIGN KEY(study_id) REFERENCES hpsearch_studies (id)
);
CREATE TABLE hpsearch_events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	study_id INTEGER NOT NULL, 
	at DOUBLE NOT NULL, 
	kind VARCHAR(64) NOT NULL, 
	trial INTEGER, 
	attempt INTEGER, 
	job VARCHAR(255), 
	data TEXT NOT NULL, 
	FOREIGN KEY(study_id) REFERENCES hpsearch_studies (id)
);
INSERT INTO "hpsearch_events" VALUES(1,1,1.79557600609280395512e+09,'started',NULL,NULL,NULL,'{}');
INSERT INTO "hpsearch_events" VALUES(2,1,1.79557600611514186854e+09,'asked',0,NULL,NULL,'{"params": {"host.gamma": 0.8475194815192372, "host.optim.args.lr": 0.0004073627768890203}, "retry_of": null}');
INSERT INTO "hpsearch_events" VALUES(3,1,1.79557600612183856968e+09,'asked',1,NULL,NULL,'{"params": {"host.gamma": 0.8516995767981356, "host.optim.args.lr": 0.001003196466954785}, "retry_of": null}');
INSERT INTO "hpsearch_events" VALUES(4,1,1.79557600612666678433e+09,'announced',NULL,NULL,'00001','{"trials": [{"trial": 0, "attempt": 1, "token": "8678495f3d354d708002fcacc9469b01"}, {"trial": 1, "attempt": 1, "token": "8c7a6ae9ba744032871a2d202366ecde"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(5,1,1.79557600614038300511e+09,'submitted',NULL,NULL,'00001','{"id": "27105"}');
INSERT INTO "hpsearch_events" VALUES(6,1,1.79557600674888753885e+09,'job_began',NULL,NULL,'00001','{}');
INSERT INTO "hpsearch_events" VALUES(7,1,1.79557600857716751093e+09,'reported',0,NULL,NULL,'{"step": 20, "value": 0.043859649122807015, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(8,1,1.79557600857718443866e+09,'reported',1,NULL,NULL,'{"step": 20, "value": 0.038834951456310676, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(9,1,1.79557600857718849185e+09,'reported',0,NULL,NULL,'{"step": 40, "value": 0.043859649122807015, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(10,1,1.79557600857719159128e+09,'reported',1,NULL,NULL,'{"step": 40, "value": 0.038834951456310676, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(11,1,1.79557600859832477567e+09,'told',0,NULL,NULL,'{"state": "finished", "value": 0.042826552462526764, "metrics": {"rho/host/choose_first": {"value": 0.042826552462526764, "low": 0.03629272671283587, "high": 0.05555942432683379, "capped": 0.75, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.04878048780487805, "low": 0.03906059636939571, "high": 0.06645629395882176, "capped": 0.6, "games": 20.0}}, "failure": null, "message": ""}');
INSERT INTO "hpsearch_events" VALUES(12,1,1.79557600859862661365e+09,'attempt_ended',0,1,NULL,'{"status": "finished", "kind": null, "message": "", "step": 40, "lost_seconds": 0.0, "kept": 40, "repeated_seconds": 0.0, "log": []}');
INSERT INTO "hpsearch_events" VALUES(13,1,1.79557600860919809341e+09,'told',1,NULL,NULL,'{"state": "finished", "value": 0.04024144869215292, "metrics": {"rho/host/choose_first": {"value": 0.04024144869215292, "low": 0.034722222222222224, "high": 0.04938577191052438, "capped": 0.8, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.044642857142857144, "low": 0.03656307129798903, "high": 0.058148034815721464, "capped": 0.7, "games": 20.0}}, "failure": null, "message": ""}');
INSERT INTO "hpsearch_events" VALUES(14,1,1.79557600860944533349e+09,'attempt_ended',1,1,NULL,'{"status": "finished", "kind": null, "message": "", "step": 40, "lost_seconds": 0.0, "kept": 40, "repeated_seconds": 0.0, "log": []}');
INSERT INTO "hpsearch_events" VALUES(15,1,1.79557600922006535527e+09,'job_ended',NULL,NULL,'00001','{"seen": true}');
INSERT INTO "hpsearch_events" VALUES(16,1,1.79557600922201871873e+09,'ended',NULL,NULL,NULL,'{"status": "finished"}');
CREATE TABLE hpsearch_leases (
	study_id INTEGER NOT NULL, 
	holder VARCHAR(255) NOT NULL, 
	token INTEGER NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	PRIMARY KEY (study_id), 
	FOREIGN KEY(study_id) REFERENCES hpsearch_studies (id)
);
INSERT INTO "hpsearch_leases" VALUES(1,'',1,0.0);
CREATE TABLE hpsearch_parents (
	checkpoint_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	PRIMARY KEY (checkpoint_id, position), 
	FOREIGN KEY(checkpoint_id) REFERENCES hpsearch_checkpoints (id)
);
CREATE TABLE hpsearch_snapshots (
	study_id INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	event INTEGER NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (study_id, kind, name), 
	FOREIGN KEY(study_id) REFERENCES hpsearch_studies (id)
);
INSERT INTO "hpsearch_snapshots" VALUES(1,'head','0',16,'{"version": 1, "state": {"num_told": {"finished": 2}, "gpu_seconds_of_ended": 0.0, "num_retries": 0, "num_untrained": 0, "num_excused": 0, "status": "finished", "message": "", "started_at": 1795576006.092804, "last_event": 16, "requests": [], "retries": []}, "trials": [{"number": 0, "params": {"host.gamma": 0.8475194815192372, "host.optim.args.lr": 0.0004073627768890203}, "asked_at": 1795576006.1151419, "attempts": 1, "job": "00001", "announced_at": 1795576006.1266668, "seconds": 1.8497390747070312, "reported": {"20": 0.043859649122807015, "40": 0.043859649122807015}, "step": 40, "kept": 40, "told": "finished", "value": 0.042826552462526764, "metrics": {"rho/host/choose_first": {"value": 0.042826552462526764, "low": 0.03629272671283587, "high": 0.05555942432683379, "capped": 0.75, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.04878048780487805, "low": 0.03906059636939571, "high": 0.06645629395882176, "capped": 0.6, "games": 20.0}}}, {"number": 1, "params": {"host.gamma": 0.8516995767981356, "host.optim.args.lr": 0.001003196466954785}, "asked_at": 1795576006.1218386, "attempts": 1, "job": "00001", "announced_at": 1795576006.1266668, "seconds": 1.8605577945709229, "reported": {"20": 0.038834951456310676, "40": 0.038834951456310676}, "step": 40, "kept": 40, "told": "finished", "value": 0.04024144869215292, "metrics": {"rho/host/choose_first": {"value": 0.04024144869215292, "low": 0.034722222222222224, "high": 0.04938577191052438, "capped": 0.8, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.044642857142857144, "low": 0.03656307129798903, "high": 0.058148034815721464, "capped": 0.7, "games": 20.0}}}], "num_trials": 2, "jobs": [], "num_jobs": 1, "matches": [], "num_matches": 0, "population": {"planned": [], "has_begun": false, "num_judged": 0, "archive": [], "answers": {}, "newest": {}, "finished": {}, "open": {}, "late": [], "operators": {}, "closing": 0, "is_closed": false}, "tally": {"lengths": [[[null, null], 2]], "failed": {}, "newest_failed": [], "lost": {}, "least": [0.04024144869215292, 1], "greatest": [0.042826552462526764, 0], "children": {}}}');
INSERT INTO "hpsearch_snapshots" VALUES(1,'trial','0',16,'{"number": 0, "params": {"host.gamma": 0.8475194815192372, "host.optim.args.lr": 0.0004073627768890203}, "asked_at": 1795576006.1151419, "attempts": 1, "job": "00001", "announced_at": 1795576006.1266668, "seconds": 1.8497390747070312, "reported": {"20": 0.043859649122807015, "40": 0.043859649122807015}, "step": 40, "kept": 40, "told": "finished", "value": 0.042826552462526764, "metrics": {"rho/host/choose_first": {"value": 0.042826552462526764, "low": 0.03629272671283587, "high": 0.05555942432683379, "capped": 0.75, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.04878048780487805, "low": 0.03906059636939571, "high": 0.06645629395882176, "capped": 0.6, "games": 20.0}}}');
INSERT INTO "hpsearch_snapshots" VALUES(1,'trial','1',16,'{"number": 1, "params": {"host.gamma": 0.8516995767981356, "host.optim.args.lr": 0.001003196466954785}, "asked_at": 1795576006.1218386, "attempts": 1, "job": "00001", "announced_at": 1795576006.1266668, "seconds": 1.8605577945709229, "reported": {"20": 0.038834951456310676, "40": 0.038834951456310676}, "step": 40, "kept": 40, "told": "finished", "value": 0.04024144869215292, "metrics": {"rho/host/choose_first": {"value": 0.04024144869215292, "low": 0.034722222222222224, "high": 0.04938577191052438, "capped": 0.8, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.044642857142857144, "low": 0.03656307129798903, "high": 0.058148034815721464, "capped": 0.7, "games": 20.0}}}');
INSERT INTO "hpsearch_snapshots" VALUES(1,'job','00001',16,'{"name": "00001", "groups": [[[0, 1, "8678495f3d354d708002fcacc9469b01"], [1, 1, "8c7a6ae9ba744032871a2d202366ecde"]]], "id": "27105", "announced_at": 1795576006.1266668, "began_at": 1795576006.7488875, "ended": true, "ended_at": 1795576009.2200654}');
INSERT INTO "hpsearch_snapshots" VALUES(1,'lines','16-0',16,'0	finished	0.0428 [0.0363, 0.0556]	0.0004074	0.8475
1	finished	0.0402 [0.0347, 0.0494]	0.001003	0.8517');
CREATE TABLE hpsearch_studies (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	spec TEXT NOT NULL, 
	spec_hash VARCHAR(64) NOT NULL, 
	state VARCHAR(32) NOT NULL, 
	created_at DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "hpsearch_studies" VALUES(1,'tiny','{"name": "tiny", "seed": 3, "storage": "sqlite:///runs/tiny.db", "base": {"dqn": {"seed": 1, "device": "cpu", "precision": "fp32", "compile": "off", "deterministic": false, "detect_anomaly": false, "steps": 40, "dimension": 3, "max_num_points": 5, "max_value": 8, "max_steps": 20, "reposition": true, "reward": "terminal", "rollout_length": 1, "opponents": null, "agent": {"player": "choose_first"}, "evaluation": {"interval": 20, "num_games": 20, "final_num_games": 20, "max_steps": 30, "er": 0.05, "opponents": ["choose_first"]}, "checkpoint": {"interval": 50, "seconds": null, "keep_last": 2, "best": null, "resume": "auto", "warm_start": null}, "monitor": {"interval": 2, "training_log": false, "tensorboard": false, "layer_statistics": false, "timings": false, "resources": false, "prometheus": null, "profiler": null, "max_loss": null, "hang_timeout": null}, "algorithm": "dqn", "host": {"encoder": {"name": "flatten", "num_points": 5}, "net_arch": [8], "activation": "relu", "optim": {"name": "adam", "args": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-08}, "lr_schedule": {"mode": "constant"}}, "max_grad_norm": 10.0, "gamma": 0.9, "rollout_size": 16, "batch_size": 16, "er": 0.1, "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 30}, "tau": 1.0, "steps_before_update_target": 10, "huber_delta": 1.0}, "updates_per_step": 1, "learning_starts": 2, "replay_buffer": {"buffer_size": 16, "save": true, "prioritised": null}, "dqn": {"double": true, "dueling": false, "n_step": 1, "minimax": false}}}, "objectives": [{"metric": "rho/host/choose_first", "goal": "maximize"}], "space": {"host.optim.args.lr": {"type": "float", "low": 0.0001, "high": 0.01, "log": true, "step": null, "when": {}}, "host.gamma": {"type": "float", "low": 0.8, "high": 0.97, "log": false, "step": null, "when": {}}}, "budget": {"trials": 2, "wall_hours": null, "gpu_hours": null}, "sampler": {"name": "random"}, "pruner": {"name": "none"}, "max_failures": 3, "population": null, "executor": {"name": "local", "jobs": 2, "members_per_job": 3, "cpus_per_job": 1, "gpus_per_job": null, "pilot": false}, "prometheus": null}','5e0cbecee37ba543417ff8bdcb6f72f2943b1997fcd0a663a896c0d0b0344a7e','finished',1.79557600591315960885e+09);
CREATE TABLE hpsearch_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT hpsearch_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "hpsearch_version" VALUES('0003');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'tiny');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MAXIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_system_attributes" VALUES(1,1,'study:metric_names','["rho/host/choose_first"]');
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_intermediate_values" VALUES(1,1,20,4.38596491228070151091e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,2,20,3.88349514563106762432e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(3,1,40,4.38596491228070151091e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(4,2,40,3.88349514563106762432e-02,'FINITE');
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'host.gamma',8.47519481519237172228e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(2,1,'host.optim.args.lr',4.07362776889020326322e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
INSERT INTO "trial_params" VALUES(3,2,'host.gamma',8.51699576798135571387e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(4,2,'host.optim.args.lr',1.00319646695478498742e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'rho/host/choose_first 95%','[0.03629272671283587, 0.05555942432683379]');
INSERT INTO "trial_user_attributes" VALUES(2,2,'rho/host/choose_first 95%','[0.034722222222222224, 0.04938577191052438]');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,4.2826552462526763787e-02,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,4.02414486921529174212e-02,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-25 03:06:46.102206','2026-11-25 03:06:48.590599');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-25 03:06:46.115193','2026-11-25 03:06:48.602138');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
CREATE INDEX hpsearch_events_of_study ON hpsearch_events (study_id, id);
CREATE INDEX ix_hpsearch_checkpoints_sha256 ON hpsearch_checkpoints (sha256);
CREATE INDEX ix_hpsearch_parents_sha256 ON hpsearch_parents (sha256);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('hpsearch_events',16);
COMMIT;
