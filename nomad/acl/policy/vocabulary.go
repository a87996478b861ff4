package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// kind is what a rule is on.
type kind uint8

const (
	namespaces kind = iota
	nodePools
	hostVolumes
	agent
	node
	operator
	quota
	plugin
	variables
	kinds
)

// Words of every kind.
const (
	deny  = "deny"
	read  = "read"
	write = "write"
	list  = "list"
)

// vocabulary is what rules of a kind may contain.
type vocabulary struct {
	block string
	on    api.RightOn
	// named kinds have many objects; the others have one, which has no name.
	named bool
	// capabilities are those that a rule may list.
	capabilities []string
	// policies are the shorthands in the order of error texts.
	policies []string
	// shorthand is what RulesJSON shows for a policy.
	shorthand map[string][]string
	// implies are the capabilities that one grants as well. A policy of a kind without a shorthand is a capability itself.
	implies map[string][]string
	// bits and grants are computed: the bit of each capability, and it with those that it implies.
	bits, grants map[string]uint64
}

// denied is the bit of deny in all kinds.
const denied uint64 = 1

var readNamespace = []string{
	"list-jobs", "parse-job", "read-job", "csi-list-volume", "csi-read-volume", "read-job-scaling", "list-scaling-policies",
	"read-scaling-policy", "host-volume-read",
}

var writeNamespace = append(slices.Clone(readNamespace),
	"scale-job", "submit-job", "dispatch-job", "read-logs", "read-fs", "alloc-exec", "alloc-lifecycle", "csi-mount-volume",
	"csi-write-volume", "submit-recommendation", "host-volume-create")

var scaleNamespace = []string{
	"list-scaling-policies", "read-scaling-policy", "read-job-scaling", "scale-job", "read-job", "submit-recommendation",
}

// fineNamespace are the capabilities of namespaces that no shorthand contains.
var fineNamespace = []string{
	"alloc-node-exec", "sentinel-override", "csi-register-plugin", "host-volume-register", "host-volume-write", "host-volume-delete",
	"register-job", "revert-job", "deregister-job", "purge-job", "evaluate-job", "plan-job", "tag-job-version", "stable-job",
	"fail-deployment", "pause-deployment", "promote-deployment", "unblock-deployment", "cancel-deployment",
	"set-alloc-health-deployment", "gc-allocation", "pause-allocation", "force-periodic-job", "delete-service-registration",
}

var (
	readOperator  = []string{"license-read", "keyring-read"}
	writeOperator = append(slices.Clone(readOperator), "snapshot-save", "keyring-rotate", "keyring-delete")
	readWriteDeny = []string{read, write, deny}
	writeIsRead   = map[string][]string{write: {read}}
)

var words = [kinds]vocabulary{
	namespaces: {
		block: "namespace", on: api.OnNamespace, named: true,
		capabilities: slices.Concat([]string{deny}, writeNamespace, fineNamespace),
		policies:     []string{read, write, "scale", deny},
		shorthand:    map[string][]string{read: readNamespace, write: writeNamespace, "scale": scaleNamespace, deny: {deny}},
		implies: map[string][]string{
			"host-volume-write":    {"host-volume-register", "host-volume-create", "host-volume-delete", "host-volume-read"},
			"host-volume-register": {"host-volume-create", "host-volume-read"},
			"host-volume-create":   {"host-volume-read"},
		},
	},
	nodePools: {
		block: "node_pool", on: api.OnNodePool, named: true, capabilities: []string{deny, read, write, "delete"}, policies: readWriteDeny,
		shorthand: map[string][]string{read: {read}, write: {read, write, "delete"}, deny: {deny}},
	},
	hostVolumes: {
		block: "host_volume", on: api.OnHostVolume, named: true,
		capabilities: []string{deny, "mount-readonly", "mount-readwrite"}, policies: readWriteDeny,
		shorthand: map[string][]string{read: {"mount-readonly"}, write: {"mount-readonly", "mount-readwrite"}, deny: {deny}},
	},
	agent: {block: "agent", on: api.OnAgent, policies: readWriteDeny, implies: writeIsRead},
	node:  {block: "node", on: api.OnNode, policies: readWriteDeny, implies: writeIsRead},
	operator: {
		block: "operator", on: api.OnOperator, capabilities: append([]string{deny}, writeOperator...), policies: readWriteDeny,
		shorthand: map[string][]string{read: readOperator, write: writeOperator, deny: {deny}}, implies: writeIsRead,
	},
	quota: {block: "quota", on: api.OnQuota, policies: readWriteDeny, implies: writeIsRead},
	plugin: {
		block: "plugin", on: api.OnPlugin, policies: []string{read, write, list, deny},
		implies: map[string][]string{write: {read, list}, read: {list}},
	},
	variables: {
		block: "path", on: api.OnVariable, named: true, capabilities: []string{deny, list, read, write, "destroy"},
		implies: map[string][]string{read: {list}},
	},
}

func init() {
	for k := range words {
		v := &words[k]
		v.bits, v.grants = map[string]uint64{deny: denied}, map[string]uint64{}
		all := v.capabilities
		if !v.named { // the policies of single objects are rights as well
			all = slices.Concat(all, v.policies)
		}
		for _, c := range all {
			if v.bits[c] == 0 {
				v.bits[c] = 1 << len(v.bits)
			}
		}
		for c, bit := range v.bits {
			for _, more := range v.implies[c] {
				bit |= v.bits[more]
			}
			v.grants[c] = bit
		}
	}
}

// kindOf returns the kind of a right.
func kindOf(on api.RightOn) (k kind, known bool) {
	switch on {
	case api.OnNamespace:
		return namespaces, true
	case api.OnNodePool:
		return nodePools, true
	case api.OnHostVolume:
		return hostVolumes, true
	case api.OnAgent:
		return agent, true
	case api.OnNode:
		return node, true
	case api.OnOperator:
		return operator, true
	case api.OnQuota:
		return quota, true
	case api.OnPlugin:
		return plugin, true
	case api.OnVariable:
		return variables, true
	}
	return kinds, false
}

// Check returns an error for a right that no rule can grant.
func Check(right api.Right) error {
	k, known := kindOf(right.On)
	if !known {
		return fault.New(fault.Invalid, "there are no capabilities on %q", right.On)
	}
	if len(right.Any) == 0 {
		return fault.New(fault.Invalid, "the capability on %s is missing", right.On)
	}
	for _, c := range right.Any {
		if words[k].bits[c]&^denied == 0 {
			granted := slices.DeleteFunc(slices.Sorted(maps.Keys(words[k].bits)), func(c string) bool { return c == deny })
			return fault.New(fault.Invalid, "unknown capability %q on %s: it is one of %s", c, right.On, strings.Join(granted, ", "))
		}
	}
	return nil
}
