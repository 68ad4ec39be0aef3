-- A database of schema 0002 with data in every table, as sqlite3's iterdump wrote it; kept for the upgrade tests.
BEGIN TRANSACTION;
CREATE TABLE captune_alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT captune_alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "captune_alembic_version" VALUES('0002');
CREATE TABLE captune_audit (
	actor VARCHAR(100) NOT NULL, 
	action VARCHAR(10) NOT NULL, 
	target VARCHAR(300) NOT NULL, 
	status INTEGER NOT NULL, 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_audit PRIMARY KEY (id)
);
INSERT INTO "captune_audit" VALUES('me','POST','/api/v1/sweeps',201,'29687f7d9a160452','2026-11-30 14:54:15.382260');
CREATE TABLE captune_idempotency (
	owner VARCHAR(100) NOT NULL, 
	"key" VARCHAR(200) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	object_id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_idempotency PRIMARY KEY (owner, "key"), 
	CONSTRAINT ck_captune_idempotency_digest CHECK (length(digest) = 64)
);
INSERT INTO "captune_idempotency" VALUES('local','k1','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','509bfe2efa82','2026-11-30 14:54:15.348818');
CREATE TABLE captune_profiles (
	name VARCHAR(200) NOT NULL, 
	document TEXT NOT NULL, 
	device VARCHAR(200), 
	model VARCHAR(200), 
	recorded_at VARCHAR(60), 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_profiles PRIMARY KEY (id), 
	CONSTRAINT uq_captune_profiles_name UNIQUE (name)
);
INSERT INTO "captune_profiles" VALUES('bench','{
 "schema": 1,
 "name": "bench",
 "device": {
  "name": "NVIDIA Test"
 },
 "model": {
  "name": "test-8b"
 },
 "recorded_at": "2026-01-01T00:00:00+00:00",
 "starts": 3,
 "families": {
  "decode_full": {
   "unit": "requests",
   "context_tokens": 1.0,
   "attention_ms_per_mtoken": 0.0,
   "row_ms": 0.0,
   "memory": {
    "pool_mib": 0.0
   },
   "capture": {
    "fixed_s": 0.0
   },
   "points": [
    {
     "size": 1,
     "step_ms": 6.03,
     "fallback_ms": 14.02,
     "spread_ms": 0.02,
     "capture_s": 0.05,
     "memory_mib": 2.0,
     "starts": 3
    },
    {
     "size": 2,
     "step_ms": 6.06,
     "fallback_ms": 14.04,
     "spread_ms": 0.02,
     "capture_s": 0.05,
     "memory_mib": 2.0,
     "starts": 3
    },
    {
     "size": 3,
     "step_ms": 6.09,
     "fallback_ms": 14.06,
     "spread_ms": 0.02,
     "capture_s": 0.05,
     "memory_mib": 2.0,
     "starts": 3
    },
    {
     "size": 4,
     "step_ms": 6.12,
     "fallback_ms": 14.08,
     "spread_ms": 0.02,
     "capture_s": 0.05,
     "memory_mib": 2.0,
     "starts": 3
    }
   ]
  }
 },
 "prefill": {
  "points": [
   {
    "tokens": 128,
    "prefix_tokens": 0,
    "step_ms": 4.5600000000000005
   },
   {
    "tokens": 1024,
    "prefix_tokens": 0,
    "step_ms": 22.48
   },
   {
    "tokens": 8192,
    "prefix_tokens": 0,
    "step_ms": 165.84
   }
  ]
 }
}
','NVIDIA Test','test-8b','2026-01-01T00:00:00+00:00','89eb97d350b6','2026-11-30 14:54:15.237320');
CREATE TABLE captune_recommendations (
	sweep_id VARCHAR(16), 
	engine VARCHAR(60) NOT NULL, 
	options JSON NOT NULL, 
	verdict VARCHAR(20) NOT NULL, 
	document JSON NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_recommendations PRIMARY KEY (id), 
	CONSTRAINT ck_captune_recommendations_verdict CHECK (verdict IN ('adopt', 'try', 'keep_default', 'inconclusive')), 
	CONSTRAINT ck_captune_recommendations_digest CHECK (length(digest) = 64), 
	CONSTRAINT fk_captune_recommendations_sweep_id FOREIGN KEY(sweep_id) REFERENCES captune_sweeps (id) ON DELETE SET NULL, 
	CONSTRAINT uq_captune_recommendations_sweep_id UNIQUE (sweep_id)
);
INSERT INTO "captune_recommendations" VALUES('243659237ac9','vllm@0.33.0','{"max_num_seqs": "4"}','try','{"lists": {"capture": [1, 2]}, "verdict": "try"}','608ccc27de431b9736bee82bdc38c32bc9412e71acef6c6dec0a6aeb3c0f2dc5','baef0fd90d15','2026-11-30 14:54:15.305460');
CREATE TABLE captune_schedules (
	name VARCHAR(200) NOT NULL, 
	cron VARCHAR(100), 
	trace_name VARCHAR(300), 
	job JSON NOT NULL, 
	owner VARCHAR(100), 
	next_at DATETIME, 
	fired_at DATETIME, 
	last_error TEXT, 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_schedules PRIMARY KEY (id), 
	CONSTRAINT ck_captune_schedules_cron CHECK ((cron IS NULL) = (next_at IS NULL)), 
	CONSTRAINT ck_captune_schedules_trigger CHECK (cron IS NOT NULL OR trace_name IS NOT NULL)
);
INSERT INTO "captune_schedules" VALUES('nightly','30 2 * * *','day.csv','{"engine": "vllm", "profile": "bench"}','ann','2026-01-01 02:30:00.000000',NULL,NULL,'46a2e30cc1b3','2026-11-30 14:54:15.390837');
CREATE TABLE captune_sweeps (
	trace_id VARCHAR(16), 
	trace_name VARCHAR(300) NOT NULL, 
	engine VARCHAR(60) NOT NULL, 
	options JSON NOT NULL, 
	serving JSON NOT NULL, 
	budget JSON NOT NULL, 
	objective VARCHAR(10) NOT NULL, 
	profile VARCHAR(300) NOT NULL, 
	model VARCHAR(300), 
	trials INTEGER NOT NULL, 
	seed INTEGER NOT NULL, 
	holdout_share DOUBLE NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	error_code VARCHAR(40), 
	error_message TEXT, 
	error_file TEXT, 
	error_line INTEGER, 
	error_field TEXT, 
	lease_owner VARCHAR(100), 
	lease_until DATETIME, 
	fence INTEGER NOT NULL, 
	attempts INTEGER NOT NULL, 
	not_before DATETIME, 
	progress_phase VARCHAR(200), 
	progress_done INTEGER NOT NULL, 
	started_at DATETIME, 
	finished_at DATETIME, 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, kind VARCHAR(10) DEFAULT 'tune' NOT NULL CONSTRAINT ck_captune_sweeps_kind CHECK (kind IN ('tune', 'measure')), priority INTEGER DEFAULT 0 NOT NULL CONSTRAINT ck_captune_sweeps_priority CHECK (priority BETWEEN -10 AND 10), owner VARCHAR(100), schedule_id VARCHAR(16), 
	CONSTRAINT pk_captune_sweeps PRIMARY KEY (id), 
	CONSTRAINT ck_captune_sweeps_error CHECK ((state = 'failed') = (error_code IS NOT NULL)), 
	CONSTRAINT ck_captune_sweeps_lease CHECK ((state = 'running') = (lease_owner IS NOT NULL AND lease_until IS NOT NULL)), 
	CONSTRAINT ck_captune_sweeps_finished CHECK ((state IN ('complete', 'failed', 'cancelled')) = (finished_at IS NOT NULL)), 
	CONSTRAINT ck_captune_sweeps_objective CHECK (objective IN ('step', 'token')), 
	CONSTRAINT ck_captune_sweeps_state CHECK (state IN ('queued', 'running', 'complete', 'failed', 'cancelled')), 
	CONSTRAINT ck_captune_sweeps_holdout_share CHECK (holdout_share >= 0 AND holdout_share < 1), 
	CONSTRAINT ck_captune_sweeps_trials CHECK (trials >= 1), 
	CONSTRAINT fk_captune_sweeps_trace_id FOREIGN KEY(trace_id) REFERENCES captune_traces (id) ON DELETE SET NULL
);
INSERT INTO "captune_sweeps" VALUES('24abd41820d1','day.csv','vllm@0.33.0','{"max_num_seqs": "4"}','{}','{}','step','89eb97d350b6',NULL,24,0,0.3,'complete',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,NULL,'starting',2,'2026-11-30 14:54:15.270123','2026-11-30 14:54:15.306254','243659237ac9','2026-11-30 14:54:15.250976','tune',3,'ann',NULL);
INSERT INTO "captune_sweeps" VALUES('24abd41820d1','day.csv','vllm@0.33.0','{"max_num_seqs": "4"}','{}','{}','step','89eb97d350b6',NULL,24,0,0.3,'failed','bad_usage','no',NULL,NULL,'x',NULL,NULL,1,1,NULL,'starting',0,'2026-11-30 14:54:15.327824','2026-11-30 14:54:15.343601','bdcf407a3026','2026-11-30 14:54:15.317552','tune',0,NULL,NULL);
INSERT INTO "captune_sweeps" VALUES('24abd41820d1','day.csv','vllm@0.33.0','{"max_num_seqs": "4"}','{}','{}','step','89eb97d350b6',NULL,24,0,0.3,'queued',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,0,NULL,NULL,'509bfe2efa82','2026-11-30 14:54:15.348053','tune',0,NULL,NULL);
INSERT INTO "captune_sweeps" VALUES(NULL,'','','{}','{}','{}','step','mine','tiny-llama',1,0,0.0,'queued',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,0,NULL,NULL,'1717f5410142','2026-11-30 14:54:15.362846','measure',0,NULL,NULL);
CREATE TABLE captune_tokens (
	name VARCHAR(100) NOT NULL, 
	scope VARCHAR(10) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	expires_at DATETIME, 
	revoked_at DATETIME, 
	used_at DATETIME, 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_tokens PRIMARY KEY (id), 
	CONSTRAINT ck_captune_tokens_scope CHECK (scope IN ('read', 'write', 'admin')), 
	CONSTRAINT ck_captune_tokens_digest CHECK (length(digest) = 64), 
	CONSTRAINT uq_captune_tokens_digest UNIQUE (digest)
);
INSERT INTO "captune_tokens" VALUES('me','read','b5f7ab48a484eb212f2f4f0e0b0e784b9febcac67dbe2303e9a28a5b88d744d2',NULL,NULL,NULL,'f3e1953d187c','2026-11-30 14:54:15.367587');
CREATE TABLE captune_traces (
	digest VARCHAR(64) NOT NULL, 
	name VARCHAR(300) NOT NULL, 
	format VARCHAR(60) NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	rows JSON NOT NULL, 
	span_s DOUBLE, 
	notes JSON NOT NULL, 
	observation JSON, 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_traces PRIMARY KEY (id), 
	CONSTRAINT ck_captune_traces_kind CHECK (kind IN ('requests', 'steps', 'histogram')), 
	CONSTRAINT ck_captune_traces_digest CHECK (length(digest) = 64), 
	CONSTRAINT ck_captune_traces_span_s CHECK (span_s IS NULL OR span_s >= 0), 
	CONSTRAINT uq_captune_traces_digest UNIQUE (digest)
);
INSERT INTO "captune_traces" VALUES('24abd41820d1addc36c30edf4ad485f9da79b910ae7bfc24bcab33e245124966','day.csv','requests','requests','{"read": 21, "kept": 20, "dropped": {"no output": 1}, "first_line": {"no output": 7}}',2.32565711307812561514e+00,'["made by a test"]',NULL,'24abd41820d1','2026-11-30 14:54:15.223470');
CREATE TABLE captune_trials (
	sweep_id VARCHAR(16) NOT NULL, 
	number INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	document JSON NOT NULL, 
	recorded_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_trials PRIMARY KEY (sweep_id, number), 
	CONSTRAINT ck_captune_trials_state CHECK (state IN ('complete', 'infeasible', 'failed')), 
	CONSTRAINT ck_captune_trials_number CHECK (number >= 0), 
	CONSTRAINT fk_captune_trials_sweep_id FOREIGN KEY(sweep_id) REFERENCES captune_sweeps (id) ON DELETE CASCADE
);
INSERT INTO "captune_trials" VALUES('243659237ac9',0,'complete','{"number": 0, "lists": {"capture": [1, 2]}}','2026-11-30 14:54:15.289212');
INSERT INTO "captune_trials" VALUES('243659237ac9',1,'complete','{"number": 1, "lists": {"capture": [1, 2]}}','2026-11-30 14:54:15.299519');
CREATE TABLE captune_workers (
	node VARCHAR(200) NOT NULL, 
	device VARCHAR(200) NOT NULL, 
	memory_mib DOUBLE, 
	driver VARCHAR(60), 
	torch VARCHAR(60), 
	ray VARCHAR(60), 
	python VARCHAR(60), 
	state VARCHAR(10) NOT NULL, 
	sweep_id VARCHAR(16), 
	current_size INTEGER, 
	last_error TEXT, 
	seen_at DATETIME NOT NULL, 
	id VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_captune_workers PRIMARY KEY (id), 
	CONSTRAINT ck_captune_workers_state CHECK (state IN ('idle', 'busy', 'lost', 'refused'))
);
INSERT INTO "captune_workers" VALUES('node','0: NVIDIA Test',1024.0,'600.1','2.13.0','2.60.0','3.11.2','idle',NULL,NULL,NULL,'2026-11-30 14:54:15.398252','625ba12ec6a6','2026-11-30 14:54:15.398202');
CREATE INDEX ix_captune_profiles_created_at ON captune_profiles (created_at);
CREATE INDEX ix_captune_traces_created_at ON captune_traces (created_at);
CREATE INDEX ix_captune_sweeps_created_at ON captune_sweeps (created_at);
CREATE INDEX ix_captune_sweeps_queue ON captune_sweeps (state, created_at);
CREATE INDEX ix_captune_sweeps_trace_id ON captune_sweeps (trace_id);
CREATE INDEX ix_captune_recommendations_created_at ON captune_recommendations (created_at);
CREATE INDEX ix_captune_tokens_created_at ON captune_tokens (created_at);
CREATE INDEX ix_captune_audit_created_at ON captune_audit (created_at);
CREATE INDEX ix_captune_schedules_created_at ON captune_schedules (created_at);
CREATE INDEX ix_captune_workers_created_at ON captune_workers (created_at);
COMMIT;
