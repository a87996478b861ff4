package api

// RightOn is the kind of object that a right is on.
type RightOn string

// Kinds of objects. Namespaces, node pools and host volumes have names, variables that of their namespace with a slash and
// their path; the others are single.
const (
	OnNamespace  RightOn = "namespace"
	OnNode       RightOn = "node"
	OnNodePool   RightOn = "node_pool"
	OnHostVolume RightOn = "host_volume"
	OnAgent      RightOn = "agent"
	OnOperator   RightOn = "operator"
	OnQuota      RightOn = "quota"
	OnPlugin     RightOn = "plugin"
	OnVariable   RightOn = "variable"
)

// Right is one permission: any one of the capabilities on an object of the kind.
type Right struct {
	On  RightOn  `msg:",omitempty"`
	Any []string `msg:",omitempty"`
}

// Verdict is whether a token permits a right, and the rule that decides it.
type Verdict struct {
	Allowed bool `msg:",omitempty"`
	// Policy is the name of the policy with the deciding rule; empty when no rule fits.
	Policy string `msg:",omitempty"`
	// Rule is the deciding rule, such as namespace "dev-*" { capabilities = ["submit-job"] }.
	Rule string `msg:",omitempty"`
}
