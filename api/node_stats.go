package api

// HostStats is what a node uses now; Timestamp in Unix nanoseconds.
type HostStats struct {
	Memory           *HostMemoryStats    `msg:",omitempty"`
	CPU              []*HostCPUStats     `msg:",omitempty"`
	DiskStats        []*HostDiskStats    `msg:",omitempty"`
	AllocDirStats    *HostDiskStats      `msg:",omitempty"`
	DeviceStats      []*DeviceGroupStats `msg:",omitempty"`
	Uptime           uint64              `msg:",omitempty"`
	CPUTicksConsumed float64             `msg:",omitempty"`
	Timestamp        int64               `msg:",omitempty"`
}

// HostMemoryStats is the use of the host's memory in bytes.
type HostMemoryStats struct {
	Total     uint64 `msg:",omitempty"`
	Available uint64 `msg:",omitempty"`
	Used      uint64 `msg:",omitempty"`
	Free      uint64 `msg:",omitempty"`
}

// HostCPUStats is the use of one processor in percent.
type HostCPUStats struct {
	CPU    string  `msg:",omitempty"`
	User   float64 `msg:",omitempty"`
	System float64 `msg:",omitempty"`
	Idle   float64 `msg:",omitempty"`
	// TotalPercent is what is not idle, TotalTicks the same in MHz; both of this processor.
	TotalPercent float64 `msg:",omitempty"`
	TotalTicks   float64 `msg:",omitempty"`
}

// HostDiskStats is the use of one disk in bytes.
type HostDiskStats struct {
	Device            string  `msg:",omitempty"`
	Mountpoint        string  `msg:",omitempty"`
	Size              uint64  `msg:",omitempty"`
	Used              uint64  `msg:",omitempty"`
	Available         uint64  `msg:",omitempty"`
	UsedPercent       float64 `msg:",omitempty"`
	InodesUsedPercent float64 `msg:",omitempty"`
}
