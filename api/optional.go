package api

import (
	"encoding/json"
	"time"
)

// In JSON, an unset value is null where 0 or false would mean something else to programs.

// orNull is nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// MarshalJSON writes an unset duration as null.
func (g TaskGroup) MarshalJSON() ([]byte, error) {
	type plain TaskGroup
	return json.Marshal(struct {
		plain
		ShutdownDelay, MaxRunDuration, StopAfterClientDisconnect, MaxClientDisconnect *time.Duration
	}{plain(g), orNull(g.ShutdownDelay), orNull(g.MaxRunDuration), orNull(g.StopAfterClientDisconnect), orNull(g.MaxClientDisconnect)})
}

// MarshalJSON writes an unset duration as null.
func (d DisconnectStrategy) MarshalJSON() ([]byte, error) {
	type plain DisconnectStrategy
	return json.Marshal(struct {
		plain
		LostAfter, StopOnClientAfter *time.Duration
	}{plain(d), orNull(d.LostAfter), orNull(d.StopOnClientAfter)})
}

// MarshalJSON writes an unset owner as null.
func (t Template) MarshalJSON() ([]byte, error) {
	type plain Template
	return json.Marshal(struct {
		plain
		Uid, Gid *int
	}{plain(t), orNull(t.Uid), orNull(t.Gid)})
}

// MarshalJSON writes an unset Enabled as null: false would mean disabled logs.
func (l LogConfig) MarshalJSON() ([]byte, error) {
	type plain LogConfig
	return json.Marshal(struct {
		plain
		Enabled *bool
	}{plain(l), orNull(l.Enabled)})
}

// MarshalJSON writes what is not wanted as null.
func (d DesiredTransition) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ Migrate, Reschedule, ForceReschedule, NoShutdownDelay, MigrateDisablePlacement *bool }{
		orNull(d.Migrate), orNull(d.Reschedule), orNull(d.ForceReschedule), orNull(d.NoShutdownDelay), orNull(d.MigrateDisablePlacement),
	})
}

// MarshalJSON writes times that have not come as null.
func (s TaskState) MarshalJSON() ([]byte, error) {
	type plain TaskState
	return json.Marshal(struct {
		plain
		LastRestart, StartedAt, FinishedAt *time.Time
	}{plain(s), orNull(s.LastRestart), orNull(s.StartedAt), orNull(s.FinishedAt)})
}
