package kit

import "github.com/hashicorp/nomad/api"

// ClientToken makes a client token with a policy of these rules, both of this name.
func (a *Agent) ClientToken(name, rules string) *api.ACLToken {
	a.tb.Helper()
	if _, err := a.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: rules}, nil); err != nil {
		a.tb.Fatal(err)
	}
	t, _, err := a.API.ACLTokens().Create(&api.ACLToken{Name: name, Type: "client", Policies: []string{name}}, nil)
	if err != nil {
		a.tb.Fatal(err)
	}
	return t
}

// As is a client of the agent with another token.
func (a *Agent) As(secret string) *api.Client {
	a.tb.Helper()
	c, err := api.NewClient(&api.Config{Address: a.API.Address(), SecretID: secret})
	if err != nil {
		a.tb.Fatal(err)
	}
	return c
}
