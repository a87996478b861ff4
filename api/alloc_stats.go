package api

// AllocResourceUsage is what an allocation uses now, summed and per task.
type AllocResourceUsage struct {
	ResourceUsage *ResourceUsage                `msg:",omitempty"`
	Tasks         map[string]*TaskResourceUsage `msg:",omitempty"`
	Timestamp     int64                         `msg:",omitempty"`
}

// TaskResourceUsage is what one task uses now; Timestamp in Unix nanoseconds.
type TaskResourceUsage struct {
	ResourceUsage *ResourceUsage            `msg:",omitempty"`
	Timestamp     int64                     `msg:",omitempty"`
	Pids          map[string]*ResourceUsage `msg:",omitempty"`
}

// ResourceUsage is what a task uses now.
type ResourceUsage struct {
	MemoryStats *MemoryStats        `msg:",omitempty"`
	CpuStats    *CpuStats           `msg:",omitempty"`
	DeviceStats []*DeviceGroupStats `msg:",omitempty"`
}

// MemoryStats is memory use in bytes.
type MemoryStats struct {
	RSS            uint64   `msg:",omitempty"`
	Cache          uint64   `msg:",omitempty"`
	Swap           uint64   `msg:",omitempty"`
	MappedFile     uint64   `msg:",omitempty"`
	Usage          uint64   `msg:",omitempty"`
	MaxUsage       uint64   `msg:",omitempty"`
	KernelUsage    uint64   `msg:",omitempty"`
	KernelMaxUsage uint64   `msg:",omitempty"`
	Measured       []string `msg:",omitempty"`
}

// CpuStats is processor use; percentages are of one core times 100.
type CpuStats struct {
	SystemMode       float64  `msg:",omitempty"`
	UserMode         float64  `msg:",omitempty"`
	TotalTicks       float64  `msg:",omitempty"`
	ThrottledPeriods uint64   `msg:",omitempty"`
	ThrottledTime    uint64   `msg:",omitempty"`
	Percent          float64  `msg:",omitempty"`
	Measured         []string `msg:",omitempty"`
}
