package frame

// A process that serves a mount is moved to a scope of its own: it is not ended with the task that started it, but by
// the node when the mount has ended.
const (
	helperPrefix = "nomad-"
	// HelperScope ends the names of such scopes.
	HelperScope = ".fuse.scope"
	// HelperHash is the length of the hash in them.
	HelperHash = 8
)

// HelperName is the name of the scope of a process; the hash is of lower case letters and digits.
func HelperName(pid, hash string) string { return helperPrefix + pid + "-" + hash + HelperScope }

// IsHelperName reports whether [HelperName] gives such names.
func IsHelperName(name string) bool {
	end := len(name) - len(HelperScope)
	if end < len(helperPrefix) || name[:len(helperPrefix)] != helperPrefix || name[end:] != HelperScope {
		return false
	}
	middle := name[len(helperPrefix):end]
	dash := len(middle) - HelperHash - 1
	return dash > 0 && middle[dash] == '-' && all(middle[:dash], "0123456789") && all(middle[dash+1:], "0123456789abcdefghijklmnopqrstuvwxyz")
}

func all(text, of string) bool {
	for i := range len(text) {
		known := false
		for j := range len(of) {
			known = known || text[i] == of[j]
		}
		if !known {
			return false
		}
	}
	return true
}

// InHelperScope reports whether the process with that /proc/<pid>/cgroup is in a scope of helpers, or below one: helpers
// may make cgroups. Jobs choose names of cgroups too, so the function reports whether a directory is the agent's.
func InHelperScope(cgroup string, ours func(dir string) bool) bool {
	for _, dir := range Unified(cgroup) {
		start := len(cgroupRoot) + 1
		for end := start; end <= len(dir); end++ {
			if end < len(dir) && dir[end] != '/' {
				continue
			}
			if IsHelperName(dir[start:end]) && ours(dir[:end]) {
				return true
			}
			start = end + 1
		}
	}
	return false
}

// Unified are the directories of which one is the cgroup, in the hierarchy of version 2, of a process with that
// /proc/<pid>/cgroup.
func Unified(cgroup string) []string {
	const mark = "0::/"
	for start := 0; start < len(cgroup); {
		end := start
		for end < len(cgroup) && cgroup[end] != '\n' {
			end++
		}
		if line := cgroup[start:end]; len(line) > len(mark) && line[:len(mark)] == mark {
			path := line[len(mark)-1:]
			return []string{cgroupRoot + path, cgroupRoot + "/unified" + path}
		}
		start = end + 1
	}
	return nil
}

// cgroupRoot is where hosts have the hierarchies of cgroups; that of version 2 is next to the others, or alone.
const cgroupRoot = "/sys/fs/cgroup"
