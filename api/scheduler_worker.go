package api

import "time"

//msgp:ignore SchedulerWorker SchedulerWorkers SchedulerWorkerConfig

// SchedulerWorker is one worker of a server that processes evaluations.
type SchedulerWorker struct {
	ID                string    `json:"id"`
	EnabledSchedulers []string  `json:"enabled_schedulers"`
	Started           time.Time `json:"started"`
	// Status is Started, Paused or Stopped.
	Status string `json:"status"`
	// WorkloadStatus is what the worker does now.
	WorkloadStatus string `json:"workload_status"`
}

// SchedulerWorkers are the workers of a server.
type SchedulerWorkers struct {
	ServerID   string             `json:"server_id"`
	Schedulers []*SchedulerWorker `json:"schedulers"`
}

// SchedulerWorkerConfig is how many workers a server has and which evaluations they take.
type SchedulerWorkerConfig struct {
	ServerID          string   `json:"server_id"`
	NumSchedulers     int      `json:"num_schedulers"`
	EnabledSchedulers []string `json:"enabled_schedulers"`
}
