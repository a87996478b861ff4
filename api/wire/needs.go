package wire

import "github.com/open-nomad/open-nomad/api"

// Who is whom a method serves.
type Who uint8

// Callers of methods. The zero value is none of them, so that a forgotten column is found by a test.
const (
	_ Who = iota
	// Internal methods are called by nodes and servers, which prove who they are; tokens do not count.
	Internal
	// Open methods need no token.
	Open
	// AnyToken methods need a token that is valid.
	AnyToken
	// Management methods need a management token.
	Management
	// Holder methods need the rights of [Needs.All].
	Holder
	// Judged methods look at the caller themselves, because what they return depends on it.
	Judged
)

// In is where the name of a right's object comes from.
type In uint8

// Places of names.
const (
	// Single objects have no name, such as the agent.
	Single In = iota
	// InRequest is the namespace of the request, see [api.Namespaced]. For "*" the right must hold in one namespace, and the
	// rows of others are left out.
	InRequest
	// InRow is the namespace or the pool of the object that the service finds. The right must hold for some name; the
	// service compares the object's own.
	InRow
	// Filtered is InRow for parts of the result: rows without the right are left out.
	Filtered
)

// Need is one right that a method needs.
type Need struct {
	api.Right
	In In
}

// Needs is what a caller must prove before a method serves it.
type Needs struct {
	Who Who
	// All are needed by Holder methods.
	All []Need
}

// Callers without rights.
var (
	internal   = Needs{Who: Internal}
	open       = Needs{Who: Open}
	anyToken   = Needs{Who: AnyToken}
	management = Needs{Who: Management}
	judged     = Needs{Who: Judged}
)

func need(in In, on api.RightOn, capabilities []string) Needs {
	return Needs{Who: Holder, All: []Need{{Right: api.Right{On: on, Any: capabilities}, In: in}}}
}

// inNamespace needs any of the capabilities in the namespaces that the request names.
func inNamespace(any ...string) Needs { return need(InRequest, api.OnNamespace, any) }

// ofRow needs any of the capabilities in the namespace of the object that the service finds.
func ofRow(any ...string) Needs { return need(InRow, api.OnNamespace, any) }

// inPool needs any of the capabilities on the node pool that the service finds.
func inPool(any ...string) Needs { return need(InRow, api.OnNodePool, any) }

// seeing leaves out what is in namespaces without any of the capabilities.
func seeing(any ...string) Needs { return need(Filtered, api.OnNamespace, any) }

// on needs any of the capabilities on an object without a name.
func on(kind api.RightOn, any ...string) Needs { return need(Single, kind, any) }

// and needs both.
func (n Needs) and(more Needs) Needs {
	return Needs{Who: Holder, All: append(append([]Need(nil), n.All...), more.All...)}
}

// What several methods need.
var (
	readJob       = inNamespace("read-job")
	readJobOfRow  = ofRow("read-job")
	nodeRead      = on(api.OnNode, "read")
	nodeWrite     = on(api.OnNode, "write")
	operatorRead  = on(api.OnOperator, "read")
	operatorWrite = on(api.OnOperator, "write")
	agentRead     = on(api.OnAgent, "read")
	agentWrite    = on(api.OnAgent, "write")
	pluginRead    = on(api.OnPlugin, "read")
	lifecycle     = ofRow("alloc-lifecycle")
	readFiles     = ofRow("read-fs")
	execInTask    = ofRow("alloc-exec")
	writeVolume   = inNamespace("csi-write-volume")
	listVolumes   = inNamespace("csi-list-volume", "csi-read-volume", "csi-mount-volume", "list-jobs")
)
