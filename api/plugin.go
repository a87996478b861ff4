package api

import "time"

// CSIInfo is one instance of a CSI plugin as its node reports it. ControllerInfo is set for controllers, NodeInfo for node plugins.
type CSIInfo struct {
	PluginID                 string             `msg:",omitempty"`
	AllocID                  string             `msg:",omitempty"`
	Healthy                  bool               `msg:",omitempty"`
	HealthDescription        string             `msg:",omitempty"`
	UpdateTime               time.Time          `msg:",omitempty"`
	RequiresControllerPlugin bool               `msg:",omitempty"`
	RequiresTopologies       bool               `msg:",omitempty"`
	ControllerInfo           *CSIControllerInfo `json:",omitempty" msg:",omitempty"`
	NodeInfo                 *CSINodeInfo       `json:",omitempty" msg:",omitempty"`
	Provider                 string             `msg:",omitempty"`
	ProviderVersion          string             `msg:",omitempty"`
	// OwnedBy is the driver to which the plugin id belongs while volumes are registered with it, on an instance that runs
	// another driver. Servers set it; such an instance is unhealthy.
	OwnedBy string `json:",omitempty" msg:",omitempty"`
}

// CSIControllerInfo is what a controller plugin can do.
type CSIControllerInfo struct {
	SupportsCreateDelete             bool `msg:",omitempty"`
	SupportsAttachDetach             bool `msg:",omitempty"`
	SupportsListVolumes              bool `msg:",omitempty"`
	SupportsGetCapacity              bool `msg:",omitempty"`
	SupportsCreateDeleteSnapshot     bool `msg:",omitempty"`
	SupportsListSnapshots            bool `msg:",omitempty"`
	SupportsClone                    bool `msg:",omitempty"`
	SupportsReadOnlyAttach           bool `msg:",omitempty"`
	SupportsExpand                   bool `msg:",omitempty"`
	SupportsListVolumesAttachedNodes bool `msg:",omitempty"`
	SupportsCondition                bool `msg:",omitempty"`
	SupportsGet                      bool `msg:",omitempty"`
	// OfflineExpansion is set when volumes must not be in use while they grow.
	OfflineExpansion bool `json:",omitempty" msg:",omitempty"`
	// SupportsGetSnapshot is set when the plugin can return a single snapshot.
	SupportsGetSnapshot bool `json:",omitempty" msg:",omitempty"`
}

// CSINodeInfo is what a node plugin can do and where its node stands; MaxVolumes is never 0 after normalisation.
type CSINodeInfo struct {
	ID                      string    `msg:",omitempty"`
	MaxVolumes              int64     `msg:",omitempty"`
	AccessibleTopology      *Topology `msg:",omitempty"`
	RequiresNodeStageVolume bool      `msg:",omitempty"`
	SupportsStats           bool      `msg:",omitempty"`
	SupportsExpand          bool      `msg:",omitempty"`
	SupportsCondition       bool      `msg:",omitempty"`
	// SupportsVolumeMountGroup is set when the driver can give a mount to a group itself.
	SupportsVolumeMountGroup bool `json:",omitempty" msg:",omitempty"`
}

// CSILimit is how many volumes of a plugin a node takes, as its driver has taught, and for how long that
// is believed.
type CSILimit struct {
	Volumes int64 `msg:",omitempty"`
	// Until is in Unix nanoseconds.
	Until int64 `msg:",omitempty"`
}

// PluginStub is the row of a CSI plugin in lists.
type PluginStub struct {
	ID                  string `msg:",omitempty"`
	Provider            string `msg:",omitempty"`
	ControllerRequired  bool   `msg:",omitempty"`
	ControllersHealthy  int    `msg:",omitempty"`
	ControllersExpected int    `msg:",omitempty"`
	NodesHealthy        int    `msg:",omitempty"`
	NodesExpected       int    `msg:",omitempty"`
	CreateIndex         uint64 `msg:",omitempty"`
	ModifyIndex         uint64 `msg:",omitempty"`
}
