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
INSERT INTO "hpsearch_events" VALUES(1,1,1.79557598407245540619e+09,'started',NULL,NULL,NULL,'{}');
INSERT INTO "hpsearch_events" VALUES(2,1,1.79557598409384226801e+09,'asked',0,NULL,NULL,'{"params": {"host.gamma": 0.8475194815192372, "host.optim.args.lr": 0.001, "steps": 500}, "retry_of": null}');
INSERT INTO "hpsearch_events" VALUES(3,1,1.79557598410052680969e+09,'asked',1,NULL,NULL,'{"params": {"host.gamma": 0.8516995767981356, "host.optim.args.lr": 1e+30, "steps": 700}, "retry_of": null}');
INSERT INTO "hpsearch_events" VALUES(4,1,1.79557598410689568516e+09,'asked',2,NULL,NULL,'{"params": {"host.gamma": 0.8675425229507293, "host.optim.args.lr": 0.001, "steps": 800}, "retry_of": null}');
INSERT INTO "hpsearch_events" VALUES(5,1,1.79557598411297822003e+09,'asked',3,NULL,NULL,'{"params": {"host.gamma": 0.9535421279036033, "host.optim.args.lr": 0.01, "steps": 400}, "retry_of": null}');
INSERT INTO "hpsearch_events" VALUES(6,1,1.79557598411908507342e+09,'announced',NULL,NULL,'00001','{"trials": [{"trial": 0, "attempt": 1, "token": "846290919c4d41aa8042616a3384303e"}, {"trial": 1, "attempt": 1, "token": "e7927bc26e394f3fb8ca82e354833a0d"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(7,1,1.79557598412985205647e+09,'submitted',NULL,NULL,'00001','{"id": "27074"}');
INSERT INTO "hpsearch_events" VALUES(8,1,1.79557598413202667243e+09,'announced',NULL,NULL,'00002','{"trials": [{"trial": 2, "attempt": 1, "token": "3200245193ae411dac6ea50052508f77"}, {"trial": 3, "attempt": 1, "token": "897e1e4b62c0470fb0577bf35ba33e82"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(9,1,1.79557598415074872975e+09,'submitted',NULL,NULL,'00002','{"id": "27075"}');
INSERT INTO "hpsearch_events" VALUES(10,1,1.79557598476486349105e+09,'job_began',NULL,NULL,'00001','{}');
INSERT INTO "hpsearch_events" VALUES(11,1,1.79557598476487207412e+09,'job_began',NULL,NULL,'00002','{}');
INSERT INTO "hpsearch_events" VALUES(12,1,1.79557598726311492924e+09,'reported',0,NULL,NULL,'{"step": 100, "value": 0.043859649122807015, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(13,1,1.79557598726312565807e+09,'reported',1,NULL,NULL,'{"step": 100, "value": 0.04357298474945534, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(14,1,1.79557598726765799525e+09,'attempt_ended',0,1,NULL,'{"status": "lost", "kind": "lost", "message": "the job ended without a result; see @FOLDER@/runs/tiny/jobs/00001/*_log.out", "step": 50, "lost_seconds": 0.0, "kept": 50, "repeated_seconds": 0.0, "log": ["submitit INFO (2026-11-25 03:06:24,531) - Starting with JobEnvironment(job_id=27074, hostname=vm, local_rank=0(1), node=0(1), global_rank=0(1))", "submitit INFO (2026-11-25 03:06:24,531) - Loading pickle: @FOLDER@/runs/tiny/jobs/00001/27074_submitted.pkl", "trial 0 begins at step 0", "trial 1 begins at step 0"]}');
INSERT INTO "hpsearch_events" VALUES(15,1,1.79557598726796936988e+09,'attempt_ended',1,1,NULL,'{"status": "lost", "kind": "lost", "message": "the job ended without a result; see @FOLDER@/runs/tiny/jobs/00001/*_log.out", "step": 50, "lost_seconds": 0.0, "kept": 50, "repeated_seconds": 0.0, "log": ["submitit INFO (2026-11-25 03:06:24,531) - Starting with JobEnvironment(job_id=27074, hostname=vm, local_rank=0(1), node=0(1), global_rank=0(1))", "submitit INFO (2026-11-25 03:06:24,531) - Loading pickle: @FOLDER@/runs/tiny/jobs/00001/27074_submitted.pkl", "trial 0 begins at step 0", "trial 1 begins at step 0"]}');
INSERT INTO "hpsearch_events" VALUES(16,1,1.79557598726824831957e+09,'attempt_ended',2,1,NULL,'{"status": "lost", "kind": "lost", "message": "the job ended without a result; see @FOLDER@/runs/tiny/jobs/00002/*_log.out", "step": 50, "lost_seconds": 0.0, "kept": 50, "repeated_seconds": 0.0, "log": ["submitit INFO (2026-11-25 03:06:24,433) - Starting with JobEnvironment(job_id=27075, hostname=vm, local_rank=0(1), node=0(1), global_rank=0(1))", "submitit INFO (2026-11-25 03:06:24,434) - Loading pickle: @FOLDER@/runs/tiny/jobs/00002/27075_submitted.pkl", "trial 2 begins at step 0", "trial 3 begins at step 0"]}');
INSERT INTO "hpsearch_events" VALUES(17,1,1.79557598726849269865e+09,'attempt_ended',3,1,NULL,'{"status": "lost", "kind": "lost", "message": "the job ended without a result; see @FOLDER@/runs/tiny/jobs/00002/*_log.out", "step": 50, "lost_seconds": 0.0, "kept": 50, "repeated_seconds": 0.0, "log": ["submitit INFO (2026-11-25 03:06:24,433) - Starting with JobEnvironment(job_id=27075, hostname=vm, local_rank=0(1), node=0(1), global_rank=0(1))", "submitit INFO (2026-11-25 03:06:24,434) - Loading pickle: @FOLDER@/runs/tiny/jobs/00002/27075_submitted.pkl", "trial 2 begins at step 0", "trial 3 begins at step 0"]}');
INSERT INTO "hpsearch_events" VALUES(18,1,1.79557598727628612515e+09,'job_ended',NULL,NULL,'00001','{"seen": true}');
INSERT INTO "hpsearch_events" VALUES(19,1,1.79557598727629399298e+09,'job_ended',NULL,NULL,'00002','{"seen": true}');
INSERT INTO "hpsearch_events" VALUES(20,1,1.7955759872799155712e+09,'announced',NULL,NULL,'00003','{"trials": [{"trial": 0, "attempt": 2, "token": "0866cc45705c4a32bf7f07353a004330"}, {"trial": 1, "attempt": 2, "token": "7d74ee9f9fb742149c7ac6e90b2c36d4"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(21,1,1.79557598729462933543e+09,'submitted',NULL,NULL,'00003','{"id": "27081"}');
INSERT INTO "hpsearch_events" VALUES(22,1,1.79557598729861092566e+09,'announced',NULL,NULL,'00004','{"trials": [{"trial": 2, "attempt": 2, "token": "4b22539faa8c4487a3a3aa7c0bdc4f00"}, {"trial": 3, "attempt": 2, "token": "6f9e9a1ad596485eb050fb0ccc998034"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(23,1,1.79557598731711173054e+09,'submitted',NULL,NULL,'00004','{"id": "27082"}');
INSERT INTO "hpsearch_events" VALUES(24,1,1.79557598793877410889e+09,'job_began',NULL,NULL,'00003','{}');
INSERT INTO "hpsearch_events" VALUES(25,1,1.79557598793878102306e+09,'job_began',NULL,NULL,'00004','{}');
INSERT INTO "hpsearch_events" VALUES(26,1,1.79557599041235017777e+09,'reported',2,NULL,NULL,'{"step": 100, "value": 0.04395604395604396, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(27,1,1.7955759904123573303e+09,'reported',3,NULL,NULL,'{"step": 100, "value": 0.07246376811594203, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(28,1,1.79557599041235971455e+09,'reported',2,NULL,NULL,'{"step": 200, "value": 0.1724137931034483, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(29,1,1.79557599041236138348e+09,'reported',3,NULL,NULL,'{"step": 200, "value": 0.05698005698005698, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(30,1,1.79557599043913936618e+09,'told',1,NULL,NULL,'{"state": "failed", "value": null, "metrics": {}, "failure": "nan", "message": "the weights became infinite or NaN; lower the learning rate"}');
INSERT INTO "hpsearch_events" VALUES(31,1,1.79557599043979167936e+09,'attempt_ended',1,2,NULL,'{"status": "failed", "kind": "nan", "message": "the weights became infinite or NaN; lower the learning rate", "step": 100, "lost_seconds": 0.2310473999386886, "kept": 0, "repeated_seconds": 0.0, "log": ["submitit INFO (2026-11-25 03:06:27,726) - Starting with JobEnvironment(job_id=27081, hostname=vm, local_rank=0(1), node=0(1), global_rank=0(1))", "submitit INFO (2026-11-25 03:06:27,726) - Loading pickle: @FOLDER@/runs/tiny/jobs/00003/27081_submitted.pkl", "trial 0 goes on from step 50", "trial 1 goes on from step 50"]}');
INSERT INTO "hpsearch_events" VALUES(32,1,1.79557599106795644757e+09,'reported',0,NULL,NULL,'{"step": 200, "value": 0.043859649122807015, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(33,1,1795575991.06797,'reported',0,NULL,NULL,'{"step": 300, "value": 0.043859649122807015, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(34,1,1.79557599106797266012e+09,'reported',2,NULL,NULL,'{"step": 300, "value": 0.24390243902439027, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(35,1,1.79557599106797528267e+09,'reported',3,NULL,NULL,'{"step": 300, "value": 0.11049723756906077, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(36,1,1.79557599106797742844e+09,'reported',2,NULL,NULL,'{"step": 400, "value": 0.19047619047619047, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(37,1,1.79557599106797981256e+09,'reported',3,NULL,NULL,'{"step": 400, "value": 0.10256410256410256, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(38,1,1.79557599110896420478e+09,'told',3,NULL,NULL,'{"state": "finished", "value": 0.11627906976744186, "metrics": {"rho/host/choose_first": {"value": 0.11627906976744186, "low": 0.07298606502986064, "high": 0.23255813953488372, "capped": 0.19999999999999996, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.15873015873015872, "low": 0.10152284263959391, "high": 0.303146853146853, "capped": 0.050000000000000044, "games": 20.0}}, "failure": null, "message": ""}');
INSERT INTO "hpsearch_events" VALUES(39,1,1.79557599110919523244e+09,'attempt_ended',3,2,NULL,'{"status": "finished", "kind": null, "message": "", "step": 400, "lost_seconds": 0.0, "kept": 400, "repeated_seconds": 0.0, "log": []}');
CREATE TABLE hpsearch_leases (
	study_id INTEGER NOT NULL, 
	holder VARCHAR(255) NOT NULL, 
	token INTEGER NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	PRIMARY KEY (study_id), 
	FOREIGN KEY(study_id) REFERENCES hpsearch_studies (id)
);
INSERT INTO "hpsearch_leases" VALUES(1,'recorder/27072/1795575982.58',1,1.79557629111551713945e+09);
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
INSERT INTO "hpsearch_studies" VALUES(1,'tiny','{"name": "tiny", "seed": 3, "storage": "sqlite:///runs/tiny.db", "base": {"dqn": {"seed": 1, "device": "cpu", "precision": "fp32", "compile": "off", "deterministic": false, "detect_anomaly": false, "steps": 400, "dimension": 3, "max_num_points": 5, "max_value": 8, "max_steps": 20, "reposition": true, "reward": "terminal", "rollout_length": 1, "opponents": null, "agent": {"player": "choose_first"}, "evaluation": {"interval": 100, "num_games": 20, "final_num_games": 20, "max_steps": 30, "er": 0.05, "opponents": ["choose_first"]}, "checkpoint": {"interval": 50, "seconds": null, "keep_last": 2, "best": null, "resume": "auto", "warm_start": null}, "monitor": {"interval": 2, "training_log": false, "tensorboard": false, "layer_statistics": false, "timings": false, "resources": false, "prometheus": null, "profiler": null, "max_loss": null, "hang_timeout": null}, "algorithm": "dqn", "host": {"encoder": {"name": "flatten", "num_points": 5}, "net_arch": [8], "activation": "relu", "optim": {"name": "adam", "args": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-08}, "lr_schedule": {"mode": "constant"}}, "max_grad_norm": 10.0, "gamma": 0.9, "rollout_size": 16, "batch_size": 16, "er": 0.1, "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 30}, "tau": 1.0, "steps_before_update_target": 10, "huber_delta": 1.0}, "updates_per_step": 1, "learning_starts": 2, "replay_buffer": {"buffer_size": 16, "save": true, "prioritised": null}, "dqn": {"double": true, "dueling": false, "n_step": 1, "minimax": false}}}, "objectives": [{"metric": "rho/host/choose_first", "goal": "maximize"}], "space": {"host.optim.args.lr": {"type": "categorical", "choices": [0.001, 0.01, 1e+30], "when": {}}, "host.gamma": {"type": "float", "low": 0.8, "high": 0.97, "log": false, "step": null, "when": {}}, "steps": {"type": "int", "low": 100, "high": 800, "log": false, "step": 100, "when": {}}}, "budget": {"trials": 8, "wall_hours": null, "gpu_hours": null}, "sampler": {"name": "tpe", "n_startup_trials": 3, "n_ei_candidates": 24, "multivariate": true, "constant_liar": true}, "pruner": {"name": "none"}, "max_failures": 8, "population": null, "executor": {"name": "local", "jobs": 2, "members_per_job": 2, "cpus_per_job": 1, "gpus_per_job": null, "pilot": false}, "prometheus": null}','56ecb678effa2245aa6cd251200183d398b0bbd589ccf049ee05f7fdc4b5648e','running',1.79557598403028726577e+09);
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
INSERT INTO "trial_intermediate_values" VALUES(1,1,100,4.38596491228070151091e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,2,100,4.35729847494553401698e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(3,3,100,4.39560439560439594752e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(4,4,100,7.24637681159420316001e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(5,3,200,1.72413793103448287347e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(6,4,200,5.6980056980056981164e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(7,1,200,4.38596491228070151091e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(8,1,300,4.38596491228070151091e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(9,3,300,2.43902439024390266242e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(10,4,300,1.1049723756906076888e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(11,3,400,1.90476190476190465616e-01,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(12,4,400,1.02564102564102560544e-01,'FINITE');
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
INSERT INTO "trial_params" VALUES(2,1,'host.optim.args.lr',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [0.001, 0.01, 1e+30]}}');
INSERT INTO "trial_params" VALUES(3,1,'steps',500.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 100, "low": 100, "high": 800}}');
INSERT INTO "trial_params" VALUES(4,2,'host.gamma',8.51699576798135571387e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(5,2,'host.optim.args.lr',2.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [0.001, 0.01, 1e+30]}}');
INSERT INTO "trial_params" VALUES(6,2,'steps',700.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 100, "low": 100, "high": 800}}');
INSERT INTO "trial_params" VALUES(7,3,'host.gamma',8.67542522950729311226e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(8,3,'host.optim.args.lr',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [0.001, 0.01, 1e+30]}}');
INSERT INTO "trial_params" VALUES(9,3,'steps',800.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 100, "low": 100, "high": 800}}');
INSERT INTO "trial_params" VALUES(10,4,'host.gamma',9.53542127903603264904e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(11,4,'host.optim.args.lr',1.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [0.001, 0.01, 1e+30]}}');
INSERT INTO "trial_params" VALUES(12,4,'steps',400.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 100, "low": 100, "high": 800}}');
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
INSERT INTO "trial_user_attributes" VALUES(1,2,'failure','"nan"');
INSERT INTO "trial_user_attributes" VALUES(2,4,'rho/host/choose_first 95%','[0.07298606502986064, 0.23255813953488372]');
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
INSERT INTO "trial_values" VALUES(1,4,0,1.16279069767441858851e-01,'FINITE');
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
INSERT INTO "trials" VALUES(1,0,1,'RUNNING','2026-11-25 03:06:24.080914',NULL);
INSERT INTO "trials" VALUES(2,1,1,'FAIL','2026-11-25 03:06:24.093884','2026-11-25 03:06:30.423462');
INSERT INTO "trials" VALUES(3,2,1,'RUNNING','2026-11-25 03:06:24.100567',NULL);
INSERT INTO "trials" VALUES(4,3,1,'COMPLETE','2026-11-25 03:06:24.106933','2026-11-25 03:06:31.086007');
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
INSERT INTO "sqlite_sequence" VALUES('hpsearch_events',39);
COMMIT;
