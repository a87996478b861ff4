package agent

import (
	"path/filepath"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
)

// keyProviders are the external services of the keyring blocks. Key files are written unless other providers only are active.
// Their programs are installed below dir.
func keyProviders(blocks []config.Keyring, dir string) (providers []keyring.Provider, noFiles bool, err error) {
	files, active := false, false
	for _, b := range blocks {
		active = active || b.Active
		if b.Provider == config.KeyFiles {
			files = files || b.Active
			continue
		}
		service, err := kms.New(b.Provider, b.Config, filepath.Join(dir, "kms"))
		if err != nil {
			return nil, false, err
		}
		providers = append(providers, keyring.Provider{Name: b.ID(), Active: b.Active, External: service})
	}
	return providers, active && !files, nil
}
