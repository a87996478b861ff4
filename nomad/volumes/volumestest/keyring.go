package volumestest

import (
	"github.com/open-nomad/open-nomad/nomad/secrets"
)

// newBox seals and opens the secrets of volumes with the keyring and the variables of the rig.
func (r *Rig) newBox() *secrets.Box {
	return secrets.New(secrets.Config{Keys: r.Keyring, Variable: func(namespace, path string) (map[string]string, error) {
		items, _ := r.Variables.Load(namespace + "/" + path)
		set, _ := items.(map[string]string)
		return set, nil
	}})
}
