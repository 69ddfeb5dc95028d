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
INSERT INTO "hpsearch_checkpoints" VALUES(1,1,0,40,'a46e267453b24ee71eb59b8380d85893ce38d9ce51cc5936c449e899e1bc14de','fresh',NULL,3000000,'{}');
INSERT INTO "hpsearch_checkpoints" VALUES(2,1,1,40,'eb8795b887bb6c26585379ca976b1875d4acf739bd8cfd036f6709129b2ae93c','fresh',NULL,3000001,'{}');
INSERT INTO "hpsearch_checkpoints" VALUES(3,1,2,40,'68610b846a3c4114344c6f9d11db4779b77e84ebbc497e4a69e37541af48cf7d','fresh',NULL,3000002,'{}');
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
INSERT INTO "hpsearch_events" VALUES(1,1,1.79557599383268046383e+09,'started',NULL,NULL,NULL,'{}');
INSERT INTO "hpsearch_events" VALUES(2,1,1.79557599383879208567e+09,'bred',NULL,NULL,NULL,'{"match": null, "children": [{"key": "0 after nothing", "member": 0, "generation": 0, "parents": [], "parent_steps": [], "operator": {"name": "fresh"}, "is_child": false, "params": null, "steps": 40, "founder": null}, {"key": "1 after nothing", "member": 1, "generation": 0, "parents": [], "parent_steps": [], "operator": {"name": "fresh"}, "is_child": false, "params": null, "steps": 40, "founder": null}, {"key": "2 after nothing", "member": 2, "generation": 0, "parents": [], "parent_steps": [], "operator": {"name": "fresh"}, "is_child": false, "params": null, "steps": 40, "founder": null}]}');
INSERT INTO "hpsearch_events" VALUES(3,1,1.79557599385589528083e+09,'asked',0,NULL,NULL,'{"params": {"agent.gamma": 0.8484092535426886, "host.gamma": 0.8475194815192372, "host.optim.args.lr": 0.0004073627768890203}, "retry_of": null, "origin": {"key": "0 after nothing", "member": 0, "generation": 0, "parents": [], "parent_steps": [], "operator": {"name": "fresh"}, "is_child": false, "params": null, "steps": 40, "founder": null}}');
INSERT INTO "hpsearch_events" VALUES(4,1,1.79557599386239194871e+09,'asked',1,NULL,NULL,'{"params": {"agent.gamma": 0.8033939694652223, "host.gamma": 0.8516995767981356, "host.optim.args.lr": 0.001003196466954785}, "retry_of": null, "origin": {"key": "1 after nothing", "member": 1, "generation": 0, "parents": [], "parent_steps": [], "operator": {"name": "fresh"}, "is_child": false, "params": null, "steps": 40, "founder": null}}');
INSERT INTO "hpsearch_events" VALUES(5,1,1.79557599386795949938e+09,'asked',2,NULL,NULL,'{"params": {"agent.gamma": 0.8671038954497811, "host.gamma": 0.8675425229507293, "host.optim.args.lr": 0.002721526478573389}, "retry_of": null, "origin": {"key": "2 after nothing", "member": 2, "generation": 0, "parents": [], "parent_steps": [], "operator": {"name": "fresh"}, "is_child": false, "params": null, "steps": 40, "founder": null}}');
INSERT INTO "hpsearch_events" VALUES(6,1,1.79557599387377905841e+09,'announced',NULL,NULL,'00001','{"trials": [{"trial": 0, "attempt": 1, "token": "f0a94ef61ee74c4eacdde781c8a5e120"}, {"trial": 1, "attempt": 1, "token": "d2bec5f1d7f64f07ba65812f12e61f21"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(7,1,1.79557599388364028929e+09,'submitted',NULL,NULL,'00001','{"id": "27089"}');
INSERT INTO "hpsearch_events" VALUES(8,1,1.79557599388586282729e+09,'announced',NULL,NULL,'00002','{"trials": [{"trial": 2, "attempt": 1, "token": "06e93fc1b6d645c485348cee5cd7e9e7"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(9,1,1.79557599389468789102e+09,'submitted',NULL,NULL,'00002','{"id": "27090"}');
INSERT INTO "hpsearch_events" VALUES(10,1,1.79557599450812649726e+09,'job_began',NULL,NULL,'00001','{}');
INSERT INTO "hpsearch_events" VALUES(11,1,1.795575994508133173e+09,'job_began',NULL,NULL,'00002','{}');
INSERT INTO "hpsearch_events" VALUES(12,1,1.79557599697527337078e+09,'reported',0,NULL,NULL,'{"step": 20, "value": 0.043859649122807015, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(13,1,1.79557599697528123862e+09,'reported',1,NULL,NULL,'{"step": 20, "value": 0.038834951456310676, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(14,1,1.79557599697528266907e+09,'reported',2,NULL,NULL,'{"step": 20, "value": 0.06734006734006734, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(15,1,1.79557599760044574741e+09,'reported',0,NULL,NULL,'{"step": 40, "value": 0.043859649122807015, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(16,1,1.7955759976004526615e+09,'reported',1,NULL,NULL,'{"step": 40, "value": 0.038834951456310676, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(17,1,1.79557599760045433039e+09,'reported',2,NULL,NULL,'{"step": 40, "value": 0.0437636761487965, "prune": false, "rungs": 0}');
INSERT INTO "hpsearch_events" VALUES(18,1,1.79557599763618564608e+09,'told',0,NULL,NULL,'{"state": "finished", "value": 0.04576659038901602, "metrics": {"rho/host/choose_first": {"value": 0.04576659038901602, "low": 0.03676470588235294, "high": 0.06097560975609756, "capped": 0.7, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.05263157894736842, "low": 0.040814248306247136, "high": 0.07380073800738007, "capped": 0.55, "games": 20.0}, "rho/agent/zeillinger": {"value": 0.2247191011235955, "low": 0.16, "high": 0.32800546448087414, "capped": 0.0, "games": 20.0}, "rho_sampled/agent/zeillinger": {"value": 0.2597402597402597, "low": 0.20202020202020202, "high": 0.36363636363636365, "capped": 0.0, "games": 20.0}}, "failure": null, "message": "", "birth": null, "node": {"trial": 0, "step": 40, "sha256": "a46e267453b24ee71eb59b8380d85893ce38d9ce51cc5936c449e899e1bc14de", "parents": [], "operator": "fresh", "adopted": null, "seed": 3000000, "changes": {}}, "takeovers": [], "lent": []}');
INSERT INTO "hpsearch_events" VALUES(19,1,1.7955759976364881992e+09,'attempt_ended',0,1,NULL,'{"status": "finished", "kind": null, "message": "", "step": 40, "lost_seconds": 0.0, "kept": 40, "repeated_seconds": 0.0, "log": []}');
INSERT INTO "hpsearch_events" VALUES(20,1,1.79557599765596580506e+09,'told',1,NULL,NULL,'{"state": "finished", "value": 0.04024144869215292, "metrics": {"rho/host/choose_first": {"value": 0.04024144869215292, "low": 0.034722222222222224, "high": 0.04938577191052438, "capped": 0.8, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.044642857142857144, "low": 0.03656307129798903, "high": 0.058148034815721464, "capped": 0.7, "games": 20.0}, "rho/agent/zeillinger": {"value": 0.23809523809523808, "low": 0.1694559179604045, "high": 0.3573051948051947, "capped": 0.0, "games": 20.0}, "rho_sampled/agent/zeillinger": {"value": 0.2777777777777778, "low": 0.21505376344086022, "high": 0.3705450733752619, "capped": 0.0, "games": 20.0}}, "failure": null, "message": "", "birth": null, "node": {"trial": 1, "step": 40, "sha256": "eb8795b887bb6c26585379ca976b1875d4acf739bd8cfd036f6709129b2ae93c", "parents": [], "operator": "fresh", "adopted": null, "seed": 3000001, "changes": {}}, "takeovers": [], "lent": []}');
INSERT INTO "hpsearch_events" VALUES(21,1,1.79557599765623235703e+09,'attempt_ended',1,1,NULL,'{"status": "finished", "kind": null, "message": "", "step": 40, "lost_seconds": 0.0, "kept": 40, "repeated_seconds": 0.0, "log": []}');
INSERT INTO "hpsearch_events" VALUES(22,1,1.79557599767633152012e+09,'told',2,NULL,NULL,'{"state": "finished", "value": 0.0411522633744856, "metrics": {"rho/host/choose_first": {"value": 0.0411522633744856, "low": 0.03502321330875993, "high": 0.053475935828877004, "capped": 0.8, "games": 20.0}, "rho_sampled/host/choose_first": {"value": 0.047619047619047616, "low": 0.03809342748506247, "high": 0.0641025641025641, "capped": 0.65, "games": 20.0}, "rho/agent/zeillinger": {"value": 0.18348623853211007, "low": 0.14922609176340518, "high": 0.23529411764705882, "capped": 0.0, "games": 20.0}, "rho_sampled/agent/zeillinger": {"value": 0.1923076923076923, "low": 0.15384615384615385, "high": 0.24103732001175426, "capped": 0.0, "games": 20.0}}, "failure": null, "message": "", "birth": null, "node": {"trial": 2, "step": 40, "sha256": "68610b846a3c4114344c6f9d11db4779b77e84ebbc497e4a69e37541af48cf7d", "parents": [], "operator": "fresh", "adopted": null, "seed": 3000002, "changes": {}}, "takeovers": [], "lent": []}');
INSERT INTO "hpsearch_events" VALUES(23,1,1.79557599767656874659e+09,'attempt_ended',2,1,NULL,'{"status": "finished", "kind": null, "message": "", "step": 40, "lost_seconds": 0.0, "kept": 40, "repeated_seconds": 0.0, "log": []}');
INSERT INTO "hpsearch_events" VALUES(24,1,1.79557599769142055504e+09,'match_called',NULL,NULL,NULL,'{"match": 1, "members": {"0": 0, "1": 1, "2": 2}, "ended": [0, 1, 2], "archive": []}');
INSERT INTO "hpsearch_events" VALUES(25,1,1.79557599830327725403e+09,'job_ended',NULL,NULL,'00001','{"seen": true}');
INSERT INTO "hpsearch_events" VALUES(26,1,1.7955759983032867908e+09,'job_ended',NULL,NULL,'00002','{"seen": true}');
INSERT INTO "hpsearch_events" VALUES(27,1,1.79557599830833911893e+09,'announced',NULL,NULL,'00003','{"trials": [], "gpus": 0.0, "match": 1}');
INSERT INTO "hpsearch_events" VALUES(28,1,1.79557599831325912474e+09,'submitted',NULL,NULL,'00003','{"id": "27095"}');
INSERT INTO "hpsearch_events" VALUES(29,1,1.79557599892048382755e+09,'job_began',NULL,NULL,'00003','{}');
INSERT INTO "hpsearch_events" VALUES(30,1,1.79557600112997674942e+09,'bred',NULL,NULL,NULL,'{"match": 1, "champion": 2, "strengths": {"0": -2.7563784029926826, "1": -2.932119498206931, "2": -2.5912270724539703}, "intervals": {"0": [-3.1094041835587305, -2.2697562240087183], "1": [-3.4787256401763176, -2.6482394062004193], "2": [-2.9612596561936186, -2.3307075065910148]}, "game": {"value": 0.15609756097560976, "hosts": {"zeillinger": 1.0}, "agents": {"2": 1.0}, "gaps": {"host": {"0": 0.143827622325303, "1": 0.14469748972516444, "2": 0.143827622325303, "random": 0.06842632809889743, "zeillinger": 0.0}, "agent": {"0": 0.031036941948366842, "1": 0.06612466124661245, "2": 0.0, "random": 0.17379934624088508, "choose_first": 0.013214608336559547, "choose_last": 0.11508887970235634}}, "cyclic_share": 0.21040270573485628, "cycles": []}, "children": [{"key": "0 after 0", "member": 0, "generation": 1, "parents": [0, 2], "parent_steps": [40, 40], "operator": {"name": "host_and_agent"}, "is_child": true, "params": {"agent.gamma": 0.8674092535426886, "host.gamma": 0.8305194815192372, "host.optim.args.lr": 0.0005092034711112754}, "steps": 80, "founder": null}, {"key": "1 after 1", "member": 1, "generation": 1, "parents": [1], "parent_steps": [40], "operator": {"name": "clone"}, "is_child": false, "params": {"agent.gamma": 0.8033939694652223, "host.gamma": 0.8516995767981356, "host.optim.args.lr": 0.001003196466954785}, "steps": 80, "founder": null}, {"key": "2 after 2", "member": 2, "generation": 1, "parents": [2], "parent_steps": [40], "operator": {"name": "clone"}, "is_child": false, "params": {"agent.gamma": 0.8671038954497811, "host.gamma": 0.8675425229507293, "host.optim.args.lr": 0.002721526478573389}, "steps": 80, "founder": null}], "answers": []}');
INSERT INTO "hpsearch_events" VALUES(31,1,1.795576001158747673e+09,'asked',3,NULL,NULL,'{"params": {"agent.gamma": 0.8674092535426886, "host.gamma": 0.8305194815192372, "host.optim.args.lr": 0.0005092034711112754}, "retry_of": null, "origin": {"key": "0 after 0", "member": 0, "generation": 1, "parents": [0, 2], "parent_steps": [40, 40], "operator": {"name": "host_and_agent"}, "is_child": true, "params": {"agent.gamma": 0.8674092535426886, "host.gamma": 0.8305194815192372, "host.optim.args.lr": 0.0005092034711112754}, "steps": 80, "founder": null}}');
INSERT INTO "hpsearch_events" VALUES(32,1,1.79557600117579674713e+09,'asked',4,NULL,NULL,'{"params": {"agent.gamma": 0.8033939694652223, "host.gamma": 0.8516995767981356, "host.optim.args.lr": 0.001003196466954785}, "retry_of": null, "origin": {"key": "1 after 1", "member": 1, "generation": 1, "parents": [1], "parent_steps": [40], "operator": {"name": "clone"}, "is_child": false, "params": {"agent.gamma": 0.8033939694652223, "host.gamma": 0.8516995767981356, "host.optim.args.lr": 0.001003196466954785}, "steps": 80, "founder": null}}');
INSERT INTO "hpsearch_events" VALUES(33,1,1.79557600118212962146e+09,'announced',NULL,NULL,'00004','{"trials": [{"trial": 3, "attempt": 1, "token": "4b3b19b8a96e42a2985a6b6fb0cdf0b0"}, {"trial": 4, "attempt": 1, "token": "1d60b450a31d4f47b1d2d27ac6206c83"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(34,1,1.79557600119977259635e+09,'submitted',NULL,NULL,'00004','{"id": "27099"}');
INSERT INTO "hpsearch_events" VALUES(35,1,1.79557600181755542753e+09,'job_began',NULL,NULL,'00004','{}');
INSERT INTO "hpsearch_events" VALUES(36,1,1.79557600182352113723e+09,'job_ended',NULL,NULL,'00003','{"seen": true}');
INSERT INTO "hpsearch_events" VALUES(37,1,1.79557600184821796419e+09,'asked',5,NULL,NULL,'{"params": {"agent.gamma": 0.8671038954497811, "host.gamma": 0.8675425229507293, "host.optim.args.lr": 0.002721526478573389}, "retry_of": null, "origin": {"key": "2 after 2", "member": 2, "generation": 1, "parents": [2], "parent_steps": [40], "operator": {"name": "clone"}, "is_child": false, "params": {"agent.gamma": 0.8671038954497811, "host.gamma": 0.8675425229507293, "host.optim.args.lr": 0.002721526478573389}, "steps": 80, "founder": null}}');
INSERT INTO "hpsearch_events" VALUES(38,1,1.79557600185323548314e+09,'announced',NULL,NULL,'00005','{"trials": [{"trial": 5, "attempt": 1, "token": "b847674d86054e658b45c079da8b71ec"}], "gpus": 0.0}');
INSERT INTO "hpsearch_events" VALUES(39,1,1.79557600186469221116e+09,'submitted',NULL,NULL,'00005','{"id": "27102"}');
INSERT INTO "hpsearch_events" VALUES(40,1,1.79557600248220419888e+09,'job_began',NULL,NULL,'00005','{}');
CREATE TABLE hpsearch_leases (
	study_id INTEGER NOT NULL, 
	holder VARCHAR(255) NOT NULL, 
	token INTEGER NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	PRIMARY KEY (study_id), 
	FOREIGN KEY(study_id) REFERENCES hpsearch_studies (id)
);
INSERT INTO "hpsearch_leases" VALUES(1,'recorder/27087/1795575992.45',1,1.79557630371736288068e+09);
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
INSERT INTO "hpsearch_studies" VALUES(1,'tiny','{"name": "tiny", "seed": 3, "storage": "sqlite:///runs/tiny.db", "base": {"dqn": {"seed": 1, "device": "cpu", "precision": "fp32", "compile": "off", "deterministic": false, "detect_anomaly": false, "steps": 40, "dimension": 3, "max_num_points": 5, "max_value": 8, "max_steps": 20, "reposition": true, "reward": "terminal", "rollout_length": 1, "opponents": null, "agent": {"encoder": {"name": "flatten", "num_points": 5}, "net_arch": [8], "activation": "relu", "optim": {"name": "adam", "args": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-08}, "lr_schedule": {"mode": "constant"}}, "max_grad_norm": 10.0, "gamma": 0.9, "rollout_size": 16, "batch_size": 16, "er": 0.2, "er_schedule": {"mode": "constant"}, "tau": 1.0, "steps_before_update_target": 10, "huber_delta": 1.0}, "evaluation": {"interval": 20, "num_games": 20, "final_num_games": 20, "max_steps": 30, "er": 0.05, "opponents": ["choose_first", "zeillinger"]}, "checkpoint": {"interval": 10, "seconds": null, "keep_last": 2, "best": null, "resume": "auto", "warm_start": null}, "monitor": {"interval": 2, "training_log": false, "tensorboard": false, "layer_statistics": false, "timings": false, "resources": false, "prometheus": null, "profiler": null, "max_loss": null, "hang_timeout": null}, "algorithm": "dqn", "host": {"encoder": {"name": "flatten", "num_points": 5}, "net_arch": [8], "activation": "relu", "optim": {"name": "adam", "args": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-08}, "lr_schedule": {"mode": "constant"}}, "max_grad_norm": 10.0, "gamma": 0.9, "rollout_size": 16, "batch_size": 16, "er": 0.1, "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 30}, "tau": 1.0, "steps_before_update_target": 10, "huber_delta": 1.0}, "updates_per_step": 8, "learning_starts": 2, "replay_buffer": {"buffer_size": 16, "save": true, "prioritised": null}, "dqn": {"double": true, "dueling": false, "n_step": 1, "minimax": false}}}, "objectives": [{"metric": "rho/host/choose_first", "goal": "maximize"}], "space": {"host.optim.args.lr": {"type": "float", "low": 0.0001, "high": 0.01, "log": true, "step": null, "when": {}}, "host.gamma": {"type": "float", "low": 0.8, "high": 0.97, "log": false, "step": null, "when": {}}, "agent.gamma": {"type": "float", "low": 0.8, "high": 0.99, "log": false, "step": null, "when": {}}}, "budget": {"trials": 8, "wall_hours": null, "gpu_hours": null}, "sampler": {"name": "random"}, "pruner": {"name": "none"}, "max_failures": 3, "population": {"members": 3, "interval": 40, "generations": {"name": "synchronous", "quorum": 0.75, "minutes": 30.0}, "matches": {"num_games": 16, "max_steps": 100, "panel": ["random", "zeillinger", "choose_first", "choose_last"], "archive": 4, "weighing": "nash", "num_samples": 20, "best_response": null}, "founders": [], "islands": null, "selection": {"name": "truncation", "share": 0.4, "confidence": 0.6}, "explore": {"name": "perturb", "factor": 1.25, "range_share": 0.1, "resample": 0.1, "switch": 0.1}, "operators": [{"name": "clone"}, {"name": "host_and_agent"}, {"name": "gaussian_mutation", "strength": 0.1}, {"name": "aligned_average", "share": 0.5}], "floor": 0.2, "adoption": {"num_games": 16, "confidence": 0.8}, "closing": {"operators": [{"name": "host_and_agent"}, {"name": "gaussian_mutation", "strength": 0.1}, {"name": "aligned_average", "share": 0.5}], "generations": 1, "share": 0.5}}, "executor": {"name": "local", "jobs": 2, "members_per_job": 2, "cpus_per_job": 1, "gpus_per_job": null, "pilot": false}, "prometheus": null}','7f5dfda209a6f742c079f9f16dc9497d96df0c48af78f476ba6c22ba4afcc782','running',1.79557599378907632821e+09);
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
INSERT INTO "trial_intermediate_values" VALUES(3,3,20,6.73400673400673388524e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(4,1,40,4.38596491228070151091e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(5,2,40,3.88349514563106762432e-02,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(6,3,40,0.0437636761487965,'FINITE');
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
INSERT INTO "trial_params" VALUES(1,1,'agent.gamma',8.48409253542688590599e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.99, "log": false}}');
INSERT INTO "trial_params" VALUES(2,1,'host.gamma',8.47519481519237172228e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(3,1,'host.optim.args.lr',4.07362776889020326322e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
INSERT INTO "trial_params" VALUES(4,2,'agent.gamma',8.03393969465222346215e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.99, "log": false}}');
INSERT INTO "trial_params" VALUES(5,2,'host.gamma',8.51699576798135571387e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(6,2,'host.optim.args.lr',1.00319646695478498742e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
INSERT INTO "trial_params" VALUES(7,3,'agent.gamma',8.67103895449781059134e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.99, "log": false}}');
INSERT INTO "trial_params" VALUES(8,3,'host.gamma',8.67542522950729311226e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(9,3,'host.optim.args.lr',2.72152647857338897061e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
INSERT INTO "trial_params" VALUES(10,4,'agent.gamma',8.67409253542688607474e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.99, "log": false}}');
INSERT INTO "trial_params" VALUES(11,4,'host.gamma',8.30519481519237157129e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(12,4,'host.optim.args.lr',5.09203471111275380797e-04,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
INSERT INTO "trial_params" VALUES(13,5,'agent.gamma',8.03393969465222346215e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.99, "log": false}}');
INSERT INTO "trial_params" VALUES(14,5,'host.gamma',8.51699576798135571387e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(15,5,'host.optim.args.lr',1.00319646695478498742e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
INSERT INTO "trial_params" VALUES(16,6,'agent.gamma',8.67103895449781059134e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.99, "log": false}}');
INSERT INTO "trial_params" VALUES(17,6,'host.gamma',8.67542522950729311226e-01,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.8, "high": 0.97, "log": false}}');
INSERT INTO "trial_params" VALUES(18,6,'host.optim.args.lr',2.72152647857338897061e-03,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0001, "high": 0.01, "log": true}}');
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
INSERT INTO "trial_user_attributes" VALUES(1,1,'origin','"0 after nothing"');
INSERT INTO "trial_user_attributes" VALUES(2,2,'origin','"1 after nothing"');
INSERT INTO "trial_user_attributes" VALUES(3,3,'origin','"2 after nothing"');
INSERT INTO "trial_user_attributes" VALUES(4,1,'rho/host/choose_first 95%','[0.03676470588235294, 0.06097560975609756]');
INSERT INTO "trial_user_attributes" VALUES(5,2,'rho/host/choose_first 95%','[0.034722222222222224, 0.04938577191052438]');
INSERT INTO "trial_user_attributes" VALUES(6,3,'rho/host/choose_first 95%','[0.03502321330875993, 0.053475935828877004]');
INSERT INTO "trial_user_attributes" VALUES(7,4,'origin','"0 after 0"');
INSERT INTO "trial_user_attributes" VALUES(8,4,'generation','1');
INSERT INTO "trial_user_attributes" VALUES(9,4,'parents','[0, 2]');
INSERT INTO "trial_user_attributes" VALUES(10,4,'operator','"host_and_agent"');
INSERT INTO "trial_user_attributes" VALUES(11,5,'origin','"1 after 1"');
INSERT INTO "trial_user_attributes" VALUES(12,5,'generation','1');
INSERT INTO "trial_user_attributes" VALUES(13,5,'parents','[1]');
INSERT INTO "trial_user_attributes" VALUES(14,5,'operator','"clone"');
INSERT INTO "trial_user_attributes" VALUES(15,6,'origin','"2 after 2"');
INSERT INTO "trial_user_attributes" VALUES(16,6,'generation','1');
INSERT INTO "trial_user_attributes" VALUES(17,6,'parents','[2]');
INSERT INTO "trial_user_attributes" VALUES(18,6,'operator','"clone"');
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
INSERT INTO "trial_values" VALUES(1,1,0,4.57665903890160166711e-02,'FINITE');
INSERT INTO "trial_values" VALUES(2,2,0,4.02414486921529174212e-02,'FINITE');
INSERT INTO "trial_values" VALUES(3,3,0,0.0411522633744856,'FINITE');
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
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-25 03:06:33.843252','2026-11-25 03:06:37.617127');
INSERT INTO "trials" VALUES(2,1,1,'COMPLETE','2026-11-25 03:06:33.855946','2026-11-25 03:06:37.644573');
INSERT INTO "trials" VALUES(3,2,1,'COMPLETE','2026-11-25 03:06:33.862430','2026-11-25 03:06:37.665831');
INSERT INTO "trials" VALUES(4,3,1,'RUNNING','2026-11-25 03:06:41.135280',NULL);
INSERT INTO "trials" VALUES(5,4,1,'RUNNING','2026-11-25 03:06:41.158823',NULL);
INSERT INTO "trials" VALUES(6,5,1,'RUNNING','2026-11-25 03:06:41.826919',NULL);
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
INSERT INTO "sqlite_sequence" VALUES('hpsearch_events',40);
COMMIT;
