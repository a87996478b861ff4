package rules

import (
	"strings"
	"text/template/parse"

	"github.com/open-nomad/open-nomad/api"
)

// elsewhere are the functions of templates for the data of other products.
var elsewhere = map[string]string{
	"caLeaf": "Consul", "caRoots": "Consul", "connect": "Consul", "datacenters": "Consul", "exportedServices": "Consul", "key": "Consul",
	"keyExists": "Consul", "keyOrDefault": "Consul", "ls": "Consul", "node": "Consul", "nodes": "Consul", "partitions": "Consul", "peerings": "Consul",
	"safeLs": "Consul", "safeTree": "Consul", "service": "Consul", "services": "Consul", "tree": "Consul",
	"pkiCert": "Vault", "secret": "Vault", "secrets": "Vault",
}

// actionsMax bounds the templates that are looked into; the node refuses the functions of others.
const actionsMax = 2000

// functionsElsewhere returns the first function of the data of a template that needs another product, and the product. Text that is
// no template has none: the node reports what is wrong with it.
func functionsElsewhere(t *api.Template) (name, product string) {
	left := t.LeftDelim
	if left == "" {
		left = "{{"
	}
	if n := strings.Count(t.EmbeddedTmpl, left); n == 0 || n > actionsMax {
		return "", ""
	}
	tree := parse.New("")
	tree.Mode = parse.SkipFuncCheck
	all := map[string]*parse.Tree{}
	if _, err := tree.Parse(t.EmbeddedTmpl, t.LeftDelim, t.RightDelim, all); err != nil {
		return "", ""
	}
	for _, one := range all {
		if name := calledElsewhere(one.Root); name != "" {
			return name, elsewhere[name]
		}
	}
	return "", ""
}

// calledElsewhere returns the first function below a node that needs another product.
func calledElsewhere(n parse.Node) string {
	switch n := n.(type) {
	case *parse.IdentifierNode:
		if elsewhere[n.Ident] != "" {
			return n.Ident
		}
	case *parse.ListNode:
		if n != nil {
			return firstElsewhere(n.Nodes)
		}
	case *parse.ActionNode:
		return calledElsewhere(n.Pipe)
	case *parse.TemplateNode:
		return calledElsewhere(n.Pipe)
	case *parse.IfNode:
		return branchElsewhere(&n.BranchNode)
	case *parse.RangeNode:
		return branchElsewhere(&n.BranchNode)
	case *parse.WithNode:
		return branchElsewhere(&n.BranchNode)
	case *parse.PipeNode:
		if n != nil {
			return firstElsewhere(n.Cmds)
		}
	case *parse.CommandNode:
		return firstElsewhere(n.Args)
	case *parse.ChainNode:
		return calledElsewhere(n.Node)
	}
	return ""
}

func branchElsewhere(n *parse.BranchNode) string {
	for _, part := range []parse.Node{n.Pipe, n.List, n.ElseList} {
		if name := calledElsewhere(part); name != "" {
			return name
		}
	}
	return ""
}

func firstElsewhere[N parse.Node](nodes []N) string {
	for _, n := range nodes {
		if name := calledElsewhere(n); name != "" {
			return name
		}
	}
	return ""
}
