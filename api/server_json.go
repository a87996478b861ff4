package api

import (
	"encoding/json"
	"strconv"
	"time"
)

// DefaultAutopilot is the default autopilot configuration of a cluster.
func DefaultAutopilot() *AutopilotConfiguration {
	return &AutopilotConfiguration{
		CleanupDeadServers: true, LastContactThreshold: 200 * time.Millisecond,
		MaxTrailingLogs: 250, ServerStabilizationTime: 10 * time.Second,
	}
}

// period is a duration that JSON shows as a text such as "200ms"; a number is nanoseconds.
type period time.Duration

func (p period) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(p).String()) }

func (p *period) UnmarshalJSON(b []byte) error {
	text, err := strconv.Unquote(string(b))
	if err != nil {
		return json.Unmarshal(b, (*int64)(p))
	}
	d, err := time.ParseDuration(text)
	*p = period(d)
	return err
}

type plainAutopilot AutopilotConfiguration

type autopilotText struct {
	LastContactThreshold    period
	ServerStabilizationTime period
	*plainAutopilot
}

// MarshalJSON writes durations as texts.
func (c AutopilotConfiguration) MarshalJSON() ([]byte, error) {
	return json.Marshal(autopilotText{period(c.LastContactThreshold), period(c.ServerStabilizationTime), (*plainAutopilot)(&c)})
}

// UnmarshalJSON reads durations from texts; fields that are not there keep their value.
func (c *AutopilotConfiguration) UnmarshalJSON(b []byte) error {
	t := autopilotText{period(c.LastContactThreshold), period(c.ServerStabilizationTime), (*plainAutopilot)(c)}
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	c.LastContactThreshold, c.ServerStabilizationTime = time.Duration(t.LastContactThreshold), time.Duration(t.ServerStabilizationTime)
	return nil
}

type plainHealth ServerHealth

type healthText struct {
	LastContact period
	*plainHealth
}

// MarshalJSON writes the time since the last contact as a text.
func (h ServerHealth) MarshalJSON() ([]byte, error) {
	return json.Marshal(healthText{period(h.LastContact), (*plainHealth)(&h)})
}

// UnmarshalJSON reads the time since the last contact from a text.
func (h *ServerHealth) UnmarshalJSON(b []byte) error {
	t := healthText{period(h.LastContact), (*plainHealth)(h)}
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	h.LastContact = time.Duration(t.LastContact)
	return nil
}
