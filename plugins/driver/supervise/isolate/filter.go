package isolate

// Capabilities with which a task may use system calls that others may not. The numbers are those of the kernel.
const (
	dacReadSearch = 2
	sysModule     = 16
	sysRawIO      = 17
	sysPtrace     = 19
	sysPacct      = 20
	sysAdmin      = 21
	sysBoot       = 22
	sysTime       = 25
	sysTTYConfig  = 26
	syslog        = 34
	// never stands for no capability.
	never = 63
)

// call is a system call that a task may use only with a capability.
type call struct {
	number [2]int32
	needs  uint
}

// instruction is one of the kernel's packet filters, which also filter system calls.
type instruction struct {
	code    uint16
	yes, no uint8
	k       uint32
}

// Operations and results of filters.
const (
	load    = 0x20
	equals  = 0x15
	atLeast = 0x35
	anyBit  = 0x45
	mask    = 0x54
	result  = 0x06

	allow = 0x7fff0000
	kill  = 0x80000000
	// denial and missing are the errors EPERM and ENOSYS.
	denial  = 0x00050000 | 1
	missing = 0x00050000 | 38

	offsetNumber       = 0
	offsetArchitecture = 4
	offsetArgument     = 16

	// x32 is the bit of calls of a third kind of programs on amd64.
	x32 = 0x40000000
	// newNamespaces are the flags of clone that make namespaces.
	newNamespaces = 0x7e020000
	fileKind      = 0xf000
	character     = 0x2000
	block         = 0x6000
	vsock         = 40
)

func argument(n uint32) uint32 { return offsetArgument + 8*n }

// makeFilter makes the filter of system calls for a task with these capabilities. Most programs never use what it denies:
// calls with a long history of faults by which programs got rights of the kernel.
func makeFilter(bounding uint64) []instruction {
	var out []instruction
	for arch, name := range architectures {
		body := filterOf(arch, bounding)
		out = append(out,
			instruction{load, 0, 0, offsetArchitecture},
			instruction{equals, 1, 0, name},
			instruction{0x05, 0, 0, uint32(len(body))}, // jump over the body
		)
		out = append(out, body...)
	}
	return append(out, instruction{result, 0, 0, kill})
}

func filterOf(arch int, bounding uint64) []instruction {
	has := func(capability uint) bool { return capability != never && bounding&(1<<capability) != 0 }
	out := []instruction{{load, 0, 0, offsetNumber}}
	if arch == 0 {
		out = append(out, instruction{atLeast, 0, 1, x32}, instruction{result, 0, 0, missing})
	}
	for _, c := range denied {
		if n := c.number[arch]; n >= 0 && !has(c.needs) {
			out = append(out, instruction{equals, 0, 1, uint32(n)}, instruction{result, 0, 0, denial})
		}
	}
	// check adds instructions that look at an argument of a call; they are jumped over for other calls.
	check := func(number [2]int32, on ...instruction) {
		if n := number[arch]; n >= 0 {
			out = append(out, instruction{equals, 0, uint8(len(on)), uint32(n)})
			out = append(out, on...)
		}
	}
	if !has(sysAdmin) {
		// The flags of clone3 are in memory, where a filter cannot see them: programs use clone when it is missing.
		check(callClone3, instruction{result, 0, 0, missing})
		check(callClone, instruction{load, 0, 0, argument(0)}, instruction{anyBit, 0, 1, newNamespaces},
			instruction{result, 0, 0, denial}, instruction{result, 0, 0, allow})
		for i, number := range [][2]int32{callMknod, callMknodat} {
			check(number, instruction{load, 0, 0, argument(uint32(1 + i))}, instruction{mask, 0, 0, fileKind},
				instruction{equals, 1, 0, character}, instruction{equals, 0, 1, block},
				instruction{result, 0, 0, denial}, instruction{result, 0, 0, allow})
		}
	}
	check(callSocket, instruction{load, 0, 0, argument(0)}, instruction{equals, 0, 1, vsock},
		instruction{result, 0, 0, denial}, instruction{result, 0, 0, allow})
	return append(out, instruction{result, 0, 0, allow})
}
