package api

import (
	"encoding/json"
	"time"
)

// spell is a duration that JSON shows as a text such as "1h0m0s", and 0 as "". It reads numbers as nanoseconds.
type spell time.Duration

func (s spell) MarshalJSON() ([]byte, error) {
	if s == 0 {
		return []byte(`""`), nil
	}
	return period(s).MarshalJSON()
}

func (s *spell) UnmarshalJSON(b []byte) error {
	if string(b) == `""` || string(b) == "null" {
		*s = 0
		return nil
	}
	return (*period)(s).UnmarshalJSON(b)
}

type plainToken ACLToken

type tokenText struct {
	ExpirationTTL spell
	*plainToken
}

// MarshalJSON writes ExpirationTTL as a text.
func (t ACLToken) MarshalJSON() ([]byte, error) {
	return json.Marshal(tokenText{spell(t.ExpirationTTL), (*plainToken)(&t)})
}

// UnmarshalJSON reads ExpirationTTL from a text or from nanoseconds.
func (t *ACLToken) UnmarshalJSON(b []byte) error {
	text := tokenText{spell(t.ExpirationTTL), (*plainToken)(t)}
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	t.ExpirationTTL = time.Duration(text.ExpirationTTL)
	return nil
}

type plainMethod ACLAuthMethod

type methodText struct {
	MaxTokenTTL spell
	*plainMethod
}

// MarshalJSON writes MaxTokenTTL as a text.
func (m ACLAuthMethod) MarshalJSON() ([]byte, error) {
	return json.Marshal(methodText{spell(m.MaxTokenTTL), (*plainMethod)(&m)})
}

// UnmarshalJSON reads MaxTokenTTL from a text or from nanoseconds.
func (m *ACLAuthMethod) UnmarshalJSON(b []byte) error {
	text := methodText{spell(m.MaxTokenTTL), (*plainMethod)(m)}
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	m.MaxTokenTTL = time.Duration(text.MaxTokenTTL)
	return nil
}

type plainAuthMethodConfig ACLAuthMethodConfig

type authConfigText struct {
	ExpirationLeeway, NotBeforeLeeway, ClockSkewLeeway spell
	*plainAuthMethodConfig
}

// MarshalJSON writes durations as texts.
func (c ACLAuthMethodConfig) MarshalJSON() ([]byte, error) {
	return json.Marshal(authConfigText{spell(c.ExpirationLeeway), spell(c.NotBeforeLeeway), spell(c.ClockSkewLeeway), (*plainAuthMethodConfig)(&c)})
}

// UnmarshalJSON reads durations from texts or from nanoseconds.
func (c *ACLAuthMethodConfig) UnmarshalJSON(b []byte) error {
	text := authConfigText{spell(c.ExpirationLeeway), spell(c.NotBeforeLeeway), spell(c.ClockSkewLeeway), (*plainAuthMethodConfig)(c)}
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	c.ExpirationLeeway, c.NotBeforeLeeway, c.ClockSkewLeeway = time.Duration(text.ExpirationLeeway), time.Duration(text.NotBeforeLeeway), time.Duration(text.ClockSkewLeeway)
	return nil
}
