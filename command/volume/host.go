package volume

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/find"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
	"github.com/open-nomad/open-nomad/jobspec/volumespec"
)

// readHost reads the file of the first argument if it defines a host volume; otherwise it returns nil.
func readHost(s *session.Session, name string, text []byte) (*api.HostVolume, error) {
	v, isHost, err := volumespec.Host(name, text)
	if err != nil && isHost {
		return nil, session.Failed("parsing volume file", err)
	}
	if !isHost {
		return nil, nil
	}
	v.ID = cmp.Or(s.String("id"), v.ID)
	if s.IsSet("namespace") || v.Namespace == "" {
		v.Namespace = s.Namespace()
	}
	return v, nil
}

// readyMax bounds the wait until a created volume is ready.
const readyMax = 2 * time.Minute

func createHost(ctx context.Context, s *session.Session, v *api.HostVolume) error {
	live := s.Live("Creating the volume")
	out, err := s.CreateHostVolume(ctx, v)
	live.End()
	if err != nil {
		return session.Failed("creating volume", err)
	}
	warn(s, out.Warnings)
	s.Printf("Created host volume %s with ID %s\n", out.Volume.Name, out.Volume.ID)
	if s.Bool("detach") || out.Volume.State == api.HostVolumeReady {
		return nil
	}
	s.Client = s.In(out.Volume.Namespace)
	live = s.Live("Waiting until the node offers the volume")
	err = awaitReady(ctx, s, out.Volume.ID)
	live.End()
	if err != nil {
		return err
	}
	s.Printf("Host volume %s is ready\n", s.ID(out.Volume.ID))
	return nil
}

// awaitReady waits until the node of the volume has reported it.
func awaitReady(ctx context.Context, s *session.Session, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyMax, fault.New(fault.Timeout, "host volume %s is not ready yet: look at `nomad volume status -type host %s`", id, id))
	defer cancel()
	q := rest.Query{}
	for {
		v, meta, err := s.HostVolume(ctx, id, q)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return session.Failed("querying volume", err)
		case v.State == api.HostVolumeReady:
			return nil
		}
		q.Index, q.Wait = meta.Index, time.Minute
	}
}

func registerHost(ctx context.Context, s *session.Session, v *api.HostVolume) error {
	live := s.Live("Registering the volume")
	out, err := s.RegisterHostVolume(ctx, v)
	live.End()
	if err != nil {
		return session.Failed("registering volume", err)
	}
	warn(s, out.Warnings)
	s.Printf("Registered host volume %s with ID %s\n", out.Volume.Name, out.Volume.ID)
	return nil
}

func deleteHost(ctx context.Context, s *session.Session) error {
	v, err := find.HostVolume(ctx, s, s.Arg(0))
	if err != nil {
		return err
	}
	live := s.Live("Deleting the volume")
	err = s.In(v.Namespace).DeleteHostVolume(ctx, v.ID, s.Bool("force"))
	live.End()
	if err != nil {
		return session.Failed("deleting volume", err)
	}
	s.Printf("Successfully deleted volume %q!\n", v.ID)
	return nil
}

func listHost(ctx context.Context, s *session.Session) error {
	q := rest.Query{Params: map[string][]string{}}
	if pool := s.String("node-pool"); pool != "" {
		q.Params["node_pool"] = []string{pool}
	}
	if typed := s.String("node"); typed != "" {
		id, err := nodeOf(ctx, s, typed, "")
		if err != nil {
			return err
		}
		q.Params["node_id"] = []string{id}
	}
	volumes, _, err := s.HostVolumes(ctx, q)
	if err != nil {
		return session.Failed("querying host volumes", err)
	}
	if s.Formatted() {
		return s.Document(volumes)
	}
	s.Println("Dynamic Host Volumes")
	if len(volumes) == 0 {
		s.Warnf("No dynamic host volumes")
		return nil
	}
	s.Print(find.HostVolumeTable(volumes))
	return nil
}

func showHost(ctx context.Context, s *session.Session, stub *api.HostVolumeStub) error {
	v, _, err := s.In(stub.Namespace).HostVolume(ctx, stub.ID, rest.Query{})
	if err != nil {
		return session.Failed("querying volume", err)
	}
	if s.Formatted() {
		return s.Document(v)
	}
	capacity := "0 B"
	if v.CapacityBytes > 0 {
		capacity = view.Bytes(v.CapacityBytes)
	}
	s.Print(view.Pairs([][2]string{
		{"ID", v.ID},
		{"Name", v.Name},
		{"Namespace", v.Namespace},
		{"Plugin ID", v.PluginID},
		{"Node ID", v.NodeID},
		{"Node Pool", v.NodePool},
		{"Capacity", capacity},
		{"State", string(v.State)},
		{"Host Path", v.HostPath},
	}...))
	if s.Bool("short") {
		return nil
	}
	capabilities := [][]string{{"Access Mode", "Attachment Mode"}}
	for _, c := range v.RequestedCapabilities {
		capabilities = append(capabilities, []string{string(c.AccessMode), string(c.AttachmentMode)})
	}
	if len(capabilities) > 1 {
		s.Section("Capabilities", capabilities...)
	}
	if s.Verbose && len(v.Constraints) > 0 {
		constraints := [][]string{{"Attribute", "Operator", "Value"}}
		for _, c := range v.Constraints {
			constraints = append(constraints, []string{c.LTarget, cmp.Or(c.Operand, "="), c.RTarget})
		}
		s.Section("Constraints", constraints...)
	}
	if s.Verbose && len(v.Parameters) > 0 {
		parameters := [][]string{{"Parameter", "Value"}}
		for _, key := range slices.Sorted(maps.Keys(v.Parameters)) {
			parameters = append(parameters, []string{key, v.Parameters[key]})
		}
		s.Section("Parameters", parameters...)
	}
	s.Titled("Allocations", rows.Allocs(v.Allocations, s.Verbose, time.Now()))
	return nil
}

// unknown is the error of an argument that is neither a host nor a CSI volume.
func unknown(host, csi error) error {
	return fault.New(fault.Of(csi), "%w (host volumes: %s)", csi, fmt.Sprint(host))
}
