package login

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/nomad/login/claims"
)

// Limits of texts.
const (
	descriptionMax = 256
	templateMax    = 512
	// nameMax limits the names of tokens.
	nameMax = 256
)

var methodName = lazy.Regexp(`^[a-zA-Z0-9-]{1,128}$`)

// Placeholders of token names beside the claims.
const (
	nameOfMethod = "auth_method_name"
	typeOfMethod = "auth_method_type"
)

// checkMethod sets the defaults of an auth method and rejects what cannot work.
func (s *Service) checkMethod(m *api.ACLAuthMethod) error {
	m.TokenNameFormat = cmp.Or(m.TokenNameFormat, api.DefaultTokenNameFormat)
	var errs []error
	if !methodName().MatchString(m.Name) {
		errs = append(errs, fmt.Errorf("invalid name %q: 1 to 128 letters, digits and dashes are needed", m.Name))
	}
	if m.Type != api.AuthMethodJWT && m.Type != api.AuthMethodOIDC {
		errs = append(errs, fmt.Errorf("invalid type %q: it is JWT or OIDC", m.Type))
	}
	if m.TokenLocality != api.TokenLocalityLocal && m.TokenLocality != api.TokenLocalityGlobal {
		errs = append(errs, fmt.Errorf("invalid token locality %q: it is local or global", m.TokenLocality))
	}
	if m.MaxTokenTTL < s.MinTTL || m.MaxTokenTTL > s.MaxTTL {
		errs = append(errs, fmt.Errorf("invalid MaxTokenTTL value '%s' (should be between %s and %s)", m.MaxTokenTTL, s.MinTTL, s.MaxTTL))
	}
	if len(m.TokenNameFormat) > templateMax {
		errs = append(errs, fmt.Errorf("TokenNameFormat is longer than %d characters", templateMax))
	}
	errs = append(errs, claims.CheckTemplate(m.TokenNameFormat, nameOfMethod, typeOfMethod), s.Providers.Check(m.Type, m.Config))
	if m.Config != nil {
		errs = append(errs, claims.CheckMappings("ClaimMappings", m.Config.ClaimMappings)...)
		errs = append(errs, claims.CheckMappings("ListClaimMappings", m.Config.ListClaimMappings)...)
	}
	if err := errors.Join(errs...); err != nil {
		return fault.New(fault.Invalid, "invalid auth method: %w", err)
	}
	return nil
}

func checkRule(r *api.ACLBindingRule) error {
	errs := []error{ids.CheckText("description of the binding rule", r.Description), claims.CheckSelector(r.Selector), claims.CheckTemplate(r.BindName)}
	if r.AuthMethod == "" {
		errs = append(errs, errors.New("auth method is missing"))
	}
	if len(r.Description) > descriptionMax {
		errs = append(errs, fmt.Errorf("description longer than %d", descriptionMax))
	}
	switch r.BindType {
	case api.BindTypePolicy, api.BindTypeRole:
		if r.BindName == "" || len(r.BindName) > templateMax {
			errs = append(errs, fmt.Errorf("bind name has %d characters: 1 to %d are needed", len(r.BindName), templateMax))
		}
	case api.BindTypeManagement:
		if r.BindName != "" {
			errs = append(errs, errors.New("bind name should be empty for the bind type management"))
		}
	default:
		errs = append(errs, fmt.Errorf("unsupported bind type: %q: it is policy, role or management", r.BindType))
	}
	if err := errors.Join(errs...); err != nil {
		return fault.New(fault.Invalid, "invalid binding rule: %w", err)
	}
	return nil
}

// hashMethod hashes an auth method. Everyone may read the hash, so no secret is part of it; ModifyTime is, so that a new secret
// changes it.
func hashMethod(m *api.ACLAuthMethod) []byte {
	shown := *m
	if m.Config != nil {
		c := *m.Config
		c.OIDCClientSecret, c.OIDCClientAssertion = "", nil
		shown.Config = &c
	}
	return hash(&shown)
}

func hashRule(r *api.ACLBindingRule) []byte { return hash(r) }

func hash(v any) []byte {
	b, _ := json.Marshal(v) // structs of texts, numbers and times have a JSON form
	sum := sha256.Sum256(b)
	return sum[:]
}
