package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// PayloadMax is the largest payload of a dispatched job in bytes.
const PayloadMax = 16 << 10

// Dispatch validates the payload and meta of an instance of a parameterised job.
func Dispatch(p *api.ParameterizedJobConfig, payload []byte, meta map[string]string) error {
	switch {
	case len(payload) > PayloadMax:
		return fault.New(fault.Invalid, "Payload exceeds maximum size; %d > %d", len(payload), PayloadMax)
	case p.Payload == "required" && len(payload) == 0:
		return fault.New(fault.Invalid, "Payload is not provided but required by parameterized job")
	case p.Payload == "forbidden" && len(payload) > 0:
		return fault.New(fault.Invalid, "Payload provided but forbidden by parameterized job")
	}
	var unknown, absent []string
	for _, key := range sorted(meta) {
		if !slices.Contains(p.MetaRequired, key) && !slices.Contains(p.MetaOptional, key) {
			unknown = append(unknown, key)
		}
	}
	for _, key := range p.MetaRequired {
		if _, ok := meta[key]; !ok {
			absent = append(absent, key)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("Dispatch request included unpermitted metadata keys: [%s]", strings.Join(unknown, " "))
	}
	if len(absent) > 0 {
		slices.Sort(absent)
		return fmt.Errorf("Dispatch did not provide required meta keys: [%s]", strings.Join(absent, " "))
	}
	return nil
}
