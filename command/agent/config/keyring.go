package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// Keyring is a keyring block: what encrypts the wrapping keys of root keys.
type Keyring struct {
	// Provider is the label of the block.
	Provider string
	// Name distinguishes blocks of one provider.
	Name   string
	Active bool
	// Config are the other keys, which are those of the provider; some are secret.
	Config map[string]string
}

// KeyFiles is the provider that every server has: key files in its data directory.
const KeyFiles = "aead"

var keyProviders = []string{KeyFiles, "awskms", "azurekeyvault", "gcpckms", "transit"}

// ID names the block in stored keys.
func (k Keyring) ID() string { return strings.TrimSuffix(k.Provider+"."+k.Name, ".") }

// keyring reads the blocks of one item. In JSON the label is a key around the block.
func (d *decoder) keyring(it tree.Item) {
	if len(it.Labels) == 1 {
		d.keyringBlock(it.Labels[0], it)
		return
	}
	items, isBlock := it.Value.Block()
	if !isBlock || len(it.Labels) > 1 {
		d.Mistake(it.At, "keyring must be a block with one label, such as keyring \"transit\" { active = true }")
		return
	}
	for _, one := range items {
		d.keyringBlock(one.Key, one)
	}
}

func (d *decoder) keyringBlock(provider string, it tree.Item) {
	k := Keyring{Provider: provider, Config: map[string]string{}}
	items, isBlock := it.Value.Block()
	if !isBlock || !slices.Contains(keyProviders, provider) {
		d.Mistake(it.At, "keyring %q is not a block of a known provider: want one of %s", provider, strings.Join(keyProviders, ", "))
		return
	}
	for _, one := range items {
		value := one.Value.Any()
		active, isBool := value.(bool)
		switch _, nested := one.Value.Block(); {
		case nested:
			d.Mistake(one.At, "keyring %q: %s must be a value, not a block", provider, one.Key)
		case one.Key == "active" && !isBool:
			d.Mistake(one.At, "keyring %q: active must be true or false", provider)
		case one.Key == "active":
			k.Active = active
		case one.Key == "name":
			k.Name = fmt.Sprint(value)
		default:
			k.Config[one.Key] = fmt.Sprint(value)
		}
	}
	d.into.Keyrings = slices.DeleteFunc(d.into.Keyrings, func(old Keyring) bool { return old.ID() == k.ID() })
	d.into.Keyrings = append(d.into.Keyrings, k)
}
