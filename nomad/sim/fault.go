package sim

import (
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// fault does something to a node or to the leader.
func (w *World) fault() {
	w.story.Faults++
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	switch w.rnd.IntN(10) {
	case 0:
		if w.rnd.IntN(2) == 0 {
			w.restart()
		}
		w.leader.depose(w)
	case 1, 2:
		if n.cut.IsZero() {
			w.tell("%s is cut off", n.id)
			n.cut = w.now
			n.silence(w.now)
		}
	case 3, 4:
		n.heal(w)
	case 5:
		n.reboot(w)
	case 6:
		w.now = w.now.Add(time.Duration(w.rnd.IntN(400)) * time.Second)
	default:
		w.lose(n)
	}
}

func (n *node) heal(w *World) {
	if !n.cut.IsZero() {
		w.tell("%s is reachable again", n.id)
		n.cut = time.Time{}
	}
	w.send(n.id+" heartbeats", func() { w.returned(n) })
}

// returned makes a node ready again. Until it has taken down what was given up, it runs nothing new.
func (w *World) returned(n *node) {
	if !n.cut.IsZero() {
		return
	}
	n.silent = time.Time{}
	w.back = n.id
	_ = w.propose(n.id+" is ready", func(tx *state.Txn) error {
		next := *tx.Node(n.id)
		if next.Status == api.NodeStatusReady {
			return errors.New("it is")
		}
		next.Status, next.StatusUpdatedAt = api.NodeStatusReady, tx.Now().Unix()
		if w.bug == BugStaleMounts {
			next.StaleMounts = nil
		}
		tx.PutNode(&next)
		return w.rules.NodeChanged(tx, n.id)
	})
}

func (n *node) silence(since time.Time) {
	if n.silent.IsZero() {
		n.silent = since
	}
}

// reboot takes all mounts away and lets the agent begin anew.
func (n *node) reboot(w *World) {
	w.tell("%s reboots", n.id)
	for k, m := range n.mounts {
		if a := w.store.Read().Alloc(m.alloc); a == nil || a.Terminal() {
			n.owed[k] = m.hold
		}
	}
	n.mounts = map[string]mount{}
	n.heal(w)
}

// lose marks a silent node as down; now and then one that is not silent.
func (w *World) lose(n *node) {
	if n.cut.IsZero() && !w.chance(20) || !n.cut.IsZero() && w.now.Sub(n.cut) < silence {
		return
	}
	n.silence(w.now.Add(-silence)) // its heartbeats were lost
	_ = w.propose(n.id+" is down", func(tx *state.Txn) error {
		next := *tx.Node(n.id)
		if next.Status == api.NodeStatusDown {
			return errors.New("it is")
		}
		next.Status, next.StatusUpdatedAt = api.NodeStatusDown, tx.Now().Unix()+1
		tx.PutNode(&next)
		var lost []string
		for a := range tx.AllocsByNode(n.id) {
			if !a.ClientTerminal() {
				lost = append(lost, a.ID)
			}
		}
		for _, id := range lost {
			if err := w.over(tx, id, func(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusLost }); err != nil {
				return err
			}
		}
		return w.rules.NodeChanged(tx, n.id)
	})
}
