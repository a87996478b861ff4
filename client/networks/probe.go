package networks

import (
	"os"
	"os/exec"
	"strconv"

	"github.com/vishvananda/netlink"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// version is reported for the CNI plugins that the bridge of this package replaces: the servers require 0.4.0 or later.
const version = "1.0.0"

// replaced are the CNI plugins that jobs with networks of mode bridge require.
var replaced = []string{"bridge", "firewall", "host-local", "loopback", "portmap"}

// Fingerprint adds to the node what it offers for networks of allocations.
func (s *Service) Fingerprint(n *api.Node) {
	if err := possible(); err != nil {
		s.conf.Log.Info("this node gets no allocations with networks of mode bridge", "reason", err)
		return
	}
	n.NodeResources.Networks = append(n.NodeResources.Networks, &api.NetworkResource{Mode: modeBridge})
	n.Attributes["nomad.bridge.hairpin_mode"] = strconv.FormatBool(s.conf.Hairpin)
	for _, plugin := range replaced {
		n.Attributes["plugins.cni.version."+plugin] = version
	}
}

// possible returns why the node cannot make networks of mode bridge. It tries what they need in a namespace that ends with
// the call, so that nothing of the host changes.
func possible() error {
	if os.Geteuid() != 0 {
		return fault.New(fault.Unavailable, "networks of mode bridge need an agent that runs as root")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return fault.New(fault.Unavailable, "networks of mode bridge need the program nft: install the package nftables")
	}
	return inNew(func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "probe"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return fault.New(fault.Unavailable, "networks of mode bridge need bridges, which this kernel refuses: %w", err)
		}
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"}); err != nil {
			return fault.New(fault.Unavailable, "networks of mode bridge need veth interfaces, which this kernel refuses: %w", err)
		}
		return nil
	})
}
