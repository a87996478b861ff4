// Package hostpath is the embedded CSI driver: a real plugin, started by `nomad csi-hostpath`, whose
// volumes are directories (file system) or sparse files behind loop devices (block) below one state
// directory. It is for tests, demos, single machines and clusters that share a file system.
//
// # State
//
// Everything is on disk and may be shared by several plugin processes:
//
//	volumes/<id>.json    record of a volume, read and written by package durable (Overwrite)
//	snapshots/<id>.json  record of a snapshot
//	data/<id>            directory or image of a volume or snapshot
//	nodes/<node>.json    what a node reported about itself
//	nodes/<node>/<id>    the node's own hard link to an image: its loop device is found by this name
//	locks/<id>, lock     flocks: one for each volume, one for the whole
//	violations.log       what an orchestrator must not do, and did: one JSON line each
//
// Ids are derived from names, so that a call that is repeated after a crash finds its half-done work. Data
// is made under another name and renamed, and the record is written last. Deletion marks the record, removes the data and
// then the record: until then the volume is listed, and can only be deleted again, or made again. What
// a node has mounted is never remembered but read from the mount table, so kill -9 at any point leaves
// nothing that a repeated call does not repair.
//
// # Mounts
//
// Staging binds the volume's directory, publishing binds that with the mount flags of the publication: those that
// a bind mount can have (ro, nosuid, nodev, noexec, noatime, relatime, strictatime, nodiratime and their opposites).
// Others are refused by name, already by CreateVolume and ValidateVolumeCapabilities.
//
// # Snapshots
//
// A snapshot is a copy. The parameter snapshot_ready_after of the snapshot, or of its volume, plays storage on
// which it is ready to use only some time after it was cut.
//
// # Password
//
// With Config.Password the driver plays a provider that authenticates: it refuses calls on volumes and snapshots whose secrets
// do not have it under the key password.
//
// # Attach mode
//
// With Config.Attach the driver has ControllerPublish: it records the nodes that a volume is attached to and reports
// them (ControllerGetVolume, ListVolumes), refuses to attach a single-node volume twice, refuses to stage what is not
// attached, and logs both as violations.
package hostpath
