-- A database of schema 0001 with data in it, as sqlite3's iterdump wrote it; kept for the upgrade tests.
BEGIN TRANSACTION;
CREATE TABLE captune_alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT captune_alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "captune_alembic_version" VALUES('0001');
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
','NVIDIA Test','test-8b','2026-01-01T00:00:00+00:00','89eb97d350b6','2026-11-30 04:45:00.590984');
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
INSERT INTO "captune_recommendations" VALUES('056c50b00690','vllm@0.33.0','{"max_num_seqs": "64"}','try','{"lists": {"capture": [1, 2]}}','952c37cc864c1fac658001613a863a259170db17d5d5d40f2415f58ea470549e','d2648ccebe88','2026-11-30 04:45:00.611095');
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
	created_at DATETIME NOT NULL, 
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
INSERT INTO "captune_sweeps" VALUES('24abd41820d1','day.csv','vllm@0.33.0','{"max_num_seqs": "64"}','{"load": 2.0}','{}','step','bench',NULL,24,0,0.3,'complete',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,0,NULL,'starting',2,'2026-11-30 04:45:00.601103','2026-11-30 04:45:00.612298','056c50b00690','2026-11-30 04:45:00.594236');
INSERT INTO "captune_sweeps" VALUES('24abd41820d1','day.csv','sglang@0.5.23','{}','{}','{}','step','bench',NULL,24,0,0.3,'failed','bad_usage','no',NULL,NULL,'x',NULL,NULL,1,0,NULL,'starting',1,'2026-11-30 04:45:00.616675','2026-11-30 04:45:00.619906','334a286459ad','2026-11-30 04:45:00.614486');
INSERT INTO "captune_sweeps" VALUES('24abd41820d1','day.csv','sglang@0.5.23','{}','{}','{}','step','bench',NULL,24,0,0.3,'queued',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,0,NULL,NULL,'4da05f7f4f5a','2026-11-30 04:45:00.621458');
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
INSERT INTO "captune_traces" VALUES('24abd41820d1addc36c30edf4ad485f9da79b910ae7bfc24bcab33e245124966','day.csv','requests','requests','{"read": 21, "kept": 20, "dropped": {"no output": 1}, "first_line": {"no output": 7}}',2.32565711307812561514e+00,'["made by a test"]',NULL,'24abd41820d1','2026-11-30 04:45:00.585533');
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
INSERT INTO "captune_trials" VALUES('056c50b00690',0,'complete','{"number": 0}','2026-11-30 04:45:00.605066');
INSERT INTO "captune_trials" VALUES('056c50b00690',1,'infeasible','{"number": 1}','2026-11-30 04:45:00.607828');
INSERT INTO "captune_trials" VALUES('334a286459ad',0,'complete','{"number": 0}','2026-11-30 04:45:00.618522');
CREATE INDEX ix_captune_profiles_created_at ON captune_profiles (created_at);
CREATE INDEX ix_captune_traces_created_at ON captune_traces (created_at);
CREATE INDEX ix_captune_sweeps_created_at ON captune_sweeps (created_at);
CREATE INDEX ix_captune_sweeps_queue ON captune_sweeps (state, created_at);
CREATE INDEX ix_captune_sweeps_trace_id ON captune_sweeps (trace_id);
CREATE INDEX ix_captune_recommendations_created_at ON captune_recommendations (created_at);
COMMIT;
