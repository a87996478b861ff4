package volume

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/alloc"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// Status is "nomad volume status".
func Status(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "list volumes, or show one with its claims", Args: "[<volume>]", Max: 1, Format: true,
		Flags: []cli.Flag{
			session.Verbose(), session.PageFlag(),
			&cli.BoolFlag{Name: "short", Usage: "basic facts only"},
			&cli.StringFlag{Name: "type", Usage: "`kind` of volumes: csi or host"},
			&cli.StringFlag{Name: "node-pool", Usage: "host volumes of one node `pool` only"},
			&cli.StringFlag{Name: "plugin", Usage: "of one `plugin` only"},
			&cli.StringFlag{Name: "node", Usage: "held by, or on, one `node` only"},
		},
		Run: status,
	}.Command()
}

func status(ctx context.Context, s *session.Session) error {
	switch t := s.String("type"); t {
	case "":
		return statusOfAny(ctx, s)
	case api.VolumeTypeCSI:
	case api.VolumeTypeHost:
		if len(s.Args) == 0 {
			return listHost(ctx, s)
		}
		v, err := find.HostVolume(ctx, s, s.Arg(0))
		if err != nil {
			return err
		}
		return showHost(ctx, s, v)
	default:
		return fault.New(fault.Invalid, "there are no volumes of type %q, only csi and host", t)
	}
	if len(s.Args) == 0 {
		return list(ctx, s)
	}
	v, err := target(ctx, s)
	if err != nil {
		return err
	}
	return Show(ctx, s, v.ID)
}

// statusOfAny lists host and CSI volumes, or shows the volume of either type that the argument names. What needs a type, as a
// document or a filter by plugin, is of CSI volumes.
func statusOfAny(ctx context.Context, s *session.Session) error {
	if len(s.Args) == 0 {
		if !s.Formatted() && s.String("plugin") == "" {
			if err := listHost(ctx, s); err != nil {
				return err
			}
			s.Println()
		}
		return list(ctx, s)
	}
	host, noHost := find.HostVolume(ctx, s, s.Arg(0))
	if noHost == nil {
		return showHost(ctx, s, host)
	}
	v, err := target(ctx, s)
	if err != nil {
		return unknown(noHost, err)
	}
	return Show(ctx, s, v.ID)
}

func list(ctx context.Context, s *session.Session) error {
	q := rest.Query{Params: map[string][]string{}}
	if p := s.String("plugin"); p != "" {
		q.Params["plugin_id"] = []string{p}
	}
	if typed := s.String("node"); typed != "" {
		id, err := nodeOf(ctx, s, typed, "")
		if err != nil {
			return err
		}
		q.Params["node_id"] = []string{id}
	}
	volumes, _, err := s.Volumes(ctx, q)
	if err != nil {
		return session.Failed("querying CSI volumes", err)
	}
	if s.Formatted() {
		return s.Document(volumes)
	}
	s.Println("Container Storage Interface")
	if len(volumes) == 0 {
		s.Warnf("No CSI volumes")
	} else {
		slices.SortStableFunc(volumes, func(a, b *api.VolumeStub) int { return cmp.Compare(a.ID, b.ID) })
		s.Print(find.VolumeTable(volumes))
	}
	if s.Verbose && s.String("node") == "" {
		return listExternal(ctx, s, s.String("plugin"))
	}
	return nil
}

// Show prints one volume of the session's namespace.
func Show(ctx context.Context, s *session.Session, id string) error {
	v, _, err := s.Volume(ctx, id, rest.Query{})
	if err != nil {
		return session.Failed("querying volume", err)
	}
	if s.Formatted() {
		return s.Document(v)
	}
	s.Print(view.Pairs(facts(s, v)...))
	if s.Bool("short") {
		return nil
	}
	topologies := [][]string{{"Topology", "Segments"}}
	for i, t := range v.Topologies {
		topologies = append(topologies, []string{strconv.Itoa(i + 1), view.Map(t.Segments, " ")})
	}
	if len(topologies) > 1 {
		s.Section("Topologies", topologies...)
	}
	capabilities := [][]string{{"Access Mode", "Attachment Mode"}}
	for _, c := range v.RequestedCapabilities {
		capabilities = append(capabilities, []string{string(c.AccessMode), string(c.AttachmentMode)})
	}
	if len(capabilities) > 1 {
		s.Section("Capabilities", capabilities...)
	}
	showClaims(s, v)
	showAttachments(s, v)
	showUnderWay(s, v.Snapshots)
	if s.Verbose {
		showReleases(s, v)
	}
	s.Titled("Allocations", rows.Allocs(v.Allocations, s.Verbose, time.Now()))
	return s.Page(ctx, "volume", "storage", "volumes", "csi", v.ID+"@"+v.Namespace)
}

func facts(s *session.Session, v *api.VolumeDetail) [][2]string {
	capacity := ""
	if v.Capacity > 0 {
		capacity = view.Bytes(v.Capacity)
	}
	f := [][2]string{
		{"ID", v.ID},
		{"Name", v.Name},
		{"Namespace", v.Namespace},
		{"External ID", v.ExternalID},
		{"Plugin ID", v.PluginID},
		{"Provider", v.Provider},
		{"Version", v.ProviderVersion},
		{"Capacity", capacity},
		{"Schedulable", strconv.FormatBool(v.Schedulable)},
		{"Controllers Healthy", strconv.Itoa(v.ControllersHealthy)},
		{"Controllers Expected", strconv.Itoa(v.ControllersExpected)},
		{"Nodes Healthy", strconv.Itoa(v.NodesHealthy)},
		{"Nodes Expected", strconv.Itoa(v.NodesExpected)},
		{"Access Mode", string(v.AccessMode)},
		{"Attachment Mode", string(v.AttachmentMode)},
		{"Mount Options", alloc.MountOptions(v.MountOptions)},
	}
	if v.SecretsFrom != "" {
		f = append(f, [2]string{"Secrets From", v.SecretsFrom})
	}
	if v.OnNodeLoss != "" {
		f = append(f, [2]string{"On Node Loss", v.OnNodeLoss})
	}
	if v.OnMountDead != "" {
		f = append(f, [2]string{"On Mount Dead", v.OnMountDead})
	}
	if s.Verbose {
		f = append(f, verboseFacts(v)...)
	}
	if v.NotValidated != "" {
		f = append(f, [2]string{"Not Validated", view.Line(v.NotValidated)})
	}
	if v.State != "" && v.State != api.VolumeAvailable {
		f = append(f, [2]string{"State", string(v.State)})
	}
	if v.LastError != "" {
		text := v.LastError
		if !s.Verbose {
			text = view.Line(text)
		}
		f = append(f, [2]string{"Last Error", text})
	}
	return f
}

// verboseFacts are how a node that is lost is kept from writing, and what nodes still owe.
func verboseFacts(v *api.VolumeDetail) [][2]string {
	fence, lease := v.Fence, "default"
	if fence == "" {
		fence = api.FenceLease + " (default: the driver does not attach)"
		if v.ControllerRequired {
			fence = api.FenceStorage + " (default: the driver attaches)"
		}
	}
	if v.Lease > 0 {
		lease = v.Lease.String()
	}
	return [][2]string{
		{"Fence", fence},
		{"Lease", lease},
		{"Write Back", writeBack(v)},
		{"Expansion Owed By", strings.Join(v.NodeExpansion, ", ")},
	}
}

// writeBack is the part of the lease for writing data back, and the longest time that this took.
func writeBack(v *api.VolumeDetail) string {
	text := "default"
	if v.WriteBack > 0 {
		text = v.WriteBack.String()
	}
	if slowest := v.SlowestWriteBack.Round(100 * time.Millisecond); slowest > 0 {
		text += ", slowest measured " + slowest.String()
		if v.WriteBack > 0 && slowest > v.WriteBack {
			text += " (longer: what is not written back in time is lost when the node is)"
		}
	}
	return text
}
