package view

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/mask"
)

// nodeView is a node with a field that this version leaves empty, and one that is no part of the record as JSON.
type nodeView struct {
	*api.Node
	Links                map[string]string
	IdentitySigningKeyID string
}

// Node is a node as clients read it, without its secret.
func Node(n *api.Node) any {
	return nodeView{Node: mask.Redacted(n), IdentitySigningKeyID: n.IdentitySigningKeyID}
}

// poolView is a node pool with a hash of its content.
type poolView struct {
	*api.NodePool
	NodeIdentityTTL time.Duration
	Hash            string
}

// identityTTL is how long identities of nodes live in pools that set no other time.
const identityTTL = 24 * time.Hour

// Pool is a node pool as clients read it.
func Pool(p *api.NodePool) any {
	said := *p
	said.CreateIndex, said.ModifyIndex = 0, 0
	v := poolView{p, p.NodeIdentityTTL, Hash(said)}
	if v.NodeIdentityTTL == 0 {
		v.NodeIdentityTTL = identityTTL
	}
	return v
}
