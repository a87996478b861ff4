package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// DefaultAutopilot is the autopilot's configuration of a cluster where nobody set one.
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
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		*p = 0
	case float64:
		*p = period(v)
	case string:
		d, err := time.ParseDuration(v)
		if err != nil {
			return err
		}
		*p = period(d)
	default:
		return fmt.Errorf("a duration is a text such as \"200ms\", not %s", b)
	}
	return nil
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
