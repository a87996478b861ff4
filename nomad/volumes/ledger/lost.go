package ledger

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// LimitExpiry is for how long a volume limit that a driver reported is valid.
const LimitExpiry = 5 * time.Minute

// Lost reports whether the state of the node is unknown.
func Lost(n *api.Node) bool { return n == nil || n.Status == api.NodeStatusDown }

// Away reports whether nothing is heard of the node: it is lost, or disconnected for as long as some of its allocations
// may live on without contact.
func Away(n *api.Node) bool { return Lost(n) || n.Status == api.NodeStatusDisconnected }
