package api

// ReconcileOption selects the allocation to keep when a disconnected one returns.
type ReconcileOption string

// SchedulerAlgorithm is binpack or spread.
type SchedulerAlgorithm string

// DrainStatus is the outcome of a drain: draining, complete or canceled.
type DrainStatus string
