package reconciler

import (
	"errors"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// secretsOf lists the sets of secrets for calls about an external volume, the likeliest first.
func secretsOf(tx *state.Txn, plugin, external string) []map[string]string {
	return ledger.Secrets(tx, &api.VolumeAttachment{PluginID: plugin, ExternalID: external})
}

// distinct drops empty and repeated sets; what is left of none is one empty set.
func distinct(sets []map[string]string) []map[string]string {
	var kept []map[string]string
	for _, s := range sets {
		if len(s) > 0 && !slices.ContainsFunc(kept, func(k map[string]string) bool { return maps.Equal(k, s) }) {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		return []map[string]string{nil}
	}
	return kept
}

// withSecrets makes a call with the first set, and with the others while the plugin refuses the secrets. Its
// error has none of their values.
func withSecrets(sets []map[string]string, call func(map[string]string) error) error {
	var refused error
	for _, s := range sets {
		err := call(s)
		if err == nil || !failed(err).credentials() {
			return hidden(err, sets)
		}
		if refused == nil {
			refused = err
		}
	}
	return hidden(refused, sets)
}

// hide replaces the values of secrets in a text, in all the forms in which a plugin may print them.
func hide(text string, sets []map[string]string) string { return mask.Text(text, sets...) }

// hiding is an error without the values of secrets.
type hiding struct {
	err  error
	sets []map[string]string
}

func hidden(err error, sets []map[string]string) error {
	if err == nil || hide(err.Error(), sets) == err.Error() {
		return err
	}
	return &hiding{err, sets}
}

func (h *hiding) Error() string { return hide(h.err.Error(), h.sets) }
func (h *hiding) Unwrap() error { return h.err }

// As finds the plugin's reply without secrets too.
func (h *hiding) As(target any) bool {
	to, ok := target.(**fault.Call)
	if !ok {
		return false
	}
	var call *fault.Call
	if !errors.As(h.err, &call) {
		return false
	}
	shown := *call
	shown.Text = hide(call.Text, h.sets)
	*to = &shown
	return true
}
