package frame

// IdleKey is a variable in the environment of a process that only stands for the processes of Spec.Container.
const IdleKey = "NOMAD_SUPERVISE_IDLE"

// JoinKey is set in the environment of a process that joins the network namespace at the path that is its value, and waits.
const JoinKey = "NOMAD_SUPERVISE_JOIN"

// Spec is all that a supervising process needs to know about its task.
type Spec struct {
	// TaskID is sent to each agent that connects.
	TaskID string
	// State is the path of the socket and the exit file without .sock and .exit; TaskDir and AllocDir are the only trees in
	// which directories for mounts are made.
	State    string
	TaskDir  string
	AllocDir string

	// Programs lists the paths to try; the first that can be executed is run with Args (Args[0] is its name).
	Programs []string
	Args     []string
	Env      []string
	// Dir is the working directory.
	Dir string
	// User means that the ids below apply.
	User   bool
	UID    int64
	GID    int64
	Groups []int64

	// Stdout and Stderr are the paths of the log files without their index; empty throws the output away.
	Stdout       string
	Stderr       string
	MaxFiles     int64
	MaxFileBytes int64

	Mounts []Mount

	// Cgroup is a directory of the cgroup v2 tree. OwnCgroup means that the supervising process creates, kills and
	// removes it.
	Cgroup    string
	OwnCgroup bool
	// Join lists cgroup v1 directories for the task to join.
	Join []string
	// Memory is the limit of memory in bytes that is in Limits; 0 is none. It is for messages.
	Memory int64
	// Cores are the only cores that the task may run on; empty means all.
	Cores []int64
	// Scopes are cgroup v1 directories to create for the task, which it joins, and to remove.
	Scopes []string
	// Limits are set before the task is in its own cgroups.
	Limits []Limit
	// OOMScore is the oom_score_adj of the task, when not 0.
	OOMScore int64

	// Lease is for how long in nanoseconds the task may run after LeaseFrom, a reading of CLOCK_BOOTTIME in
	// nanoseconds which KindLease frames extend; 0 means no limit. When it ends the task is killed and the
	// paths in Unmount, which are those of the host, are unmounted in their order. What is not written back
	// after LeaseCut is cut off, and nothing is waited for after LeaseEnd.
	Lease     int64
	LeaseFrom int64
	LeaseCut  int64
	LeaseEnd  int64
	Unmount   []string
	// Beside lists where else on the host the same volumes may be mounted.
	Beside []string
	// LeaseOf is who has the lease together with others: all tasks of one allocation. Each holds LeaseFile locked, and
	// the last one takes the volumes away. Shared is set when tasks without such a lock use them too.
	LeaseOf   string
	LeaseFile string
	Shared    bool
	// Container is the id of a container, whose processes have it in the names of their cgroups; empty means none. They are
	// killed with the task, and the task has not ended before they have.
	Container string

	// Isolation is how the task is kept apart from the host.
	Isolation Isolation

	// Network is the path of the network namespace of the task; empty means that of the host. Hostname is the host name that
	// the task sees; empty means that of the host.
	Network, Hostname string
}

// Limit is a value to write to a file of a cgroup of the task: Dir is its own Cgroup or one of its Scopes.
type Limit struct {
	Dir, File, Value string
	// Must is set when the task may not run without it.
	Must bool
}

// Isolation keeps a task apart from the host when On is set.
type Isolation struct {
	On bool
	// Root lists what the root directory of the task shows of the host, read-only; its destinations, and those of the
	// mounts of the spec, are paths of the task. A source that does not exist is left out.
	Root []Mount
	// PID and IPC give the task namespaces of its own for processes, and for System V IPC and POSIX message queues.
	PID, IPC bool
	// Bounding is the set of capabilities that the task can have, one bit each. Ambient are those that a task has which
	// does not run as root.
	Bounding, Ambient int64
}

// Mount is a path of the host to show at Destination, which is absolute and clean.
type Mount struct {
	Source      string
	Destination string
	ReadOnly    bool
	// Sub is a clean path below Source to show instead of it, reached without following links.
	Sub string
	// UserNS is the path of a user namespace that maps the owners of files; empty means none.
	UserNS string
}

// Encode makes a spec the body of a frame.
func (s *Spec) Encode() []byte {
	w := writer(make([]byte, 0, 4096))
	w.str(s.TaskID)
	w.str(s.State)
	w.str(s.TaskDir)
	w.str(s.AllocDir)
	w.list(s.Programs)
	w.list(s.Args)
	w.list(s.Env)
	w.str(s.Dir)
	w.flag(s.User)
	w.num(s.UID)
	w.num(s.GID)
	w.num(int64(len(s.Groups)))
	for _, g := range s.Groups {
		w.num(g)
	}
	w.str(s.Stdout)
	w.str(s.Stderr)
	w.num(s.MaxFiles)
	w.num(s.MaxFileBytes)
	w.mounts(s.Mounts)
	w.str(s.Cgroup)
	w.flag(s.OwnCgroup)
	w.num(s.Memory)
	w.list(s.Join)
	w.num(int64(len(s.Cores)))
	for _, id := range s.Cores {
		w.num(id)
	}
	w.list(s.Scopes)
	w.num(int64(len(s.Limits)))
	for _, l := range s.Limits {
		w.str(l.Dir)
		w.str(l.File)
		w.str(l.Value)
		w.flag(l.Must)
	}
	w.num(s.OOMScore)
	w.num(s.Lease)
	w.num(s.LeaseFrom)
	w.list(s.Unmount)
	w.num(s.LeaseCut)
	w.num(s.LeaseEnd)
	w.list(s.Beside)
	w.str(s.LeaseOf)
	w.str(s.LeaseFile)
	w.flag(s.Shared)
	w.flag(s.Isolation.On)
	w.mounts(s.Isolation.Root)
	w.flag(s.Isolation.PID)
	w.flag(s.Isolation.IPC)
	w.num(s.Isolation.Bounding)
	w.num(s.Isolation.Ambient)
	w.str(s.Container)
	w.str(s.Network)
	w.str(s.Hostname)
	return w
}

func (w *writer) mounts(list []Mount) {
	w.num(int64(len(list)))
	for _, m := range list {
		w.str(m.Source)
		w.str(m.Destination)
		w.flag(m.ReadOnly)
		w.str(m.Sub)
		w.str(m.UserNS)
	}
}

// Decode reads the body of a spec frame.
func (s *Spec) Decode(b []byte) error {
	r := reader{b: string(b)}
	s.TaskID, s.State, s.TaskDir, s.AllocDir = r.str(), r.str(), r.str(), r.str()
	s.Programs, s.Args, s.Env, s.Dir = r.list(), r.list(), r.list(), r.str()
	s.User, s.UID, s.GID = r.flag(), r.num(), r.num()
	s.Groups = nil
	for range r.count() {
		s.Groups = append(s.Groups, r.num())
		if r.bad {
			return ErrMalformed
		}
	}
	s.Stdout, s.Stderr, s.MaxFiles, s.MaxFileBytes = r.str(), r.str(), r.num(), r.num()
	s.Mounts = r.mounts()
	s.Cgroup, s.OwnCgroup, s.Memory = r.str(), r.flag(), r.num()
	s.Join, s.Cores = r.list(), nil
	for range r.count() {
		s.Cores = append(s.Cores, r.num())
		if r.bad {
			return ErrMalformed
		}
	}
	s.Scopes, s.Limits = r.list(), nil
	for range r.count() {
		s.Limits = append(s.Limits, Limit{Dir: r.str(), File: r.str(), Value: r.str(), Must: r.flag()})
		if r.bad {
			return ErrMalformed
		}
	}
	s.OOMScore = r.num()
	s.Lease, s.LeaseFrom, s.Unmount = r.num(), r.num(), r.list()
	s.LeaseCut, s.LeaseEnd, s.Beside = r.num(), r.num(), r.list()
	s.LeaseOf, s.LeaseFile, s.Shared = r.str(), r.str(), r.flag()
	i := &s.Isolation
	i.On, i.Root, i.PID, i.IPC = r.flag(), r.mounts(), r.flag(), r.flag()
	i.Bounding, i.Ambient = r.num(), r.num()
	s.Container = r.str()
	s.Network, s.Hostname = r.str(), r.str()
	return r.end()
}

func (r *reader) mounts() (list []Mount) {
	for range r.count() {
		list = append(list, Mount{Source: r.str(), Destination: r.str(), ReadOnly: r.flag(), Sub: r.str(), UserNS: r.str()})
		if r.bad {
			return nil
		}
	}
	return list
}
