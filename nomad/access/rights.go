package access

import (
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// nothing are the rights of a token without policies.
var nothing = policy.Compile()

// Tables are the tables that decide what a token permits.
var Tables = []state.Key{
	state.TableKey(state.TableACLTokens), state.TableKey(state.TableACLPolicies), state.TableKey(state.TableACLRoles),
}

// callersMax bounds the callers that a cache keeps.
const callersMax = 10_000

// cache keeps callers until a row of its tables changes.
type cache struct {
	tables  []state.Key
	mu      sync.Mutex
	index   uint64
	line    uint64
	callers map[string]*Caller
	// parsed are the policies of rows, which are never changed.
	parsed map[*api.ACLPolicy]*policy.Policy
}

// parsedMax bounds the policies that a cache keeps.
const parsedMax = 10_000

// parse reads the rules of a policy. Rules that cannot be read, which no service stores, permit nothing.
func (c *cache) parse(row *api.ACLPolicy) *policy.Policy {
	c.mu.Lock()
	p, known := c.parsed[row]
	c.mu.Unlock()
	if known {
		return p
	}
	p, err := policy.Parse(row.Rules)
	if err != nil {
		p = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parsed) >= parsedMax || c.parsed == nil {
		c.parsed = map[*api.ACLPolicy]*policy.Policy{}
	}
	c.parsed[row] = p
	return p
}

// get returns the caller of a secret. Secrets without a caller are not kept, so that guesses cost no memory.
func (c *cache) get(s *state.Store, secret string, find func(*state.Txn) *Caller) *Caller {
	index := s.Touched(c.tables...)
	tx := s.Read()
	line := tx.Line()
	c.mu.Lock()
	if c.callers == nil || c.index != index || c.line != line {
		c.index, c.line, c.callers = index, line, map[string]*Caller{}
	}
	caller := c.callers[secret]
	c.mu.Unlock()
	if caller != nil {
		return caller
	}
	if caller = find(tx); caller == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.index == index && c.line == line && len(c.callers) < callersMax {
		c.callers[secret] = caller
	}
	return caller
}

// callerOf compiles the rights of a token.
func callerOf(tx *state.Txn, t *api.ACLToken, parse func(*api.ACLPolicy) *policy.Policy) *Caller {
	if t.Type == api.ACLManagementToken {
		return &Caller{Token: t, Rights: policy.Everything()}
	}
	return &Caller{Token: t, Rights: compile(tx, policiesOf(tx, t), parse)}
}

// policiesOf lists the policies of a token and of its roles.
func policiesOf(tx *state.Txn, t *api.ACLToken) []string {
	names := slices.Clone(t.Policies)
	for _, link := range t.Roles {
		if role := tx.ACLRole(link.ID); role != nil {
			for _, p := range role.Policies {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// compile merges policies. Those that do not exist permit nothing.
func compile(tx *state.Txn, names []string, parse func(*api.ACLPolicy) *policy.Policy) *policy.Rights {
	var named []policy.Named
	seen := map[string]bool{}
	for _, name := range names {
		row := tx.ACLPolicy(name)
		if row == nil || seen[name] {
			continue
		}
		seen[name] = true
		if p := parse(row); p != nil {
			named = append(named, policy.Named{Name: name, Policy: p})
		}
	}
	return policy.Compile(named...)
}
