package ledger

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// LimitExpiry is for how long a volume limit that a driver reported is believed.
const LimitExpiry = 5 * time.Minute

// Lost reports whether nobody knows what happens on the node.
func Lost(n *api.Node) bool { return n == nil || n.Status == api.NodeStatusDown }
