package reconciler

import (
	"errors"
	"fmt"
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

// withSecrets makes a call with the first set, and with the others while the plugin refuses the secrets or they cannot be
// read. It returns the set of the last call as it is stored. Its error has none of their values. Of names what the
// secrets are for.
func (r *Reconciler) withSecrets(of string, sets []map[string]string, call func(map[string]string) error) (with map[string]string, err error) {
	var plain []map[string]string
	var refused error
	for _, set := range sets {
		opened, err := r.secrets.Open(of, set)
		if err == nil {
			with, plain = set, append(plain, opened)
			if err = call(opened); err == nil {
				return with, nil
			}
			if !failed(err).credentials() {
				refused = err
				break
			}
		}
		if refused == nil {
			refused = err
		}
	}
	return with, hidden(refused, append(plain, r.secrets.Plain(sets...)...))
}

// external names the secrets of an external volume.
func external(plugin, id string) string { return fmt.Sprintf("volume %q of plugin %q", id, plugin) }

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
