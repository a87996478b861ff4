package fleet

import (
	"math/bits"
	"strconv"
	"strings"
)

// PortMax is the highest port number.
const PortMax = 65535

const (
	pageWords = 64
	pagePorts = pageWords * 64
)

// Ports is a set of port numbers; copies share pages until one of them changes. The zero value is empty.
type Ports struct {
	pages [(PortMax + 1) / pagePorts]*[pageWords]uint64
}

// Has reports whether the port is in the set; numbers that are no port never are.
func (s *Ports) Has(port int) bool {
	if port < 0 || port > PortMax {
		return false
	}
	p := s.pages[port/pagePorts]
	return p != nil && p[port%pagePorts/64]&(1<<(port%64)) != 0
}

// With returns the set and the port.
func (s Ports) With(port int) Ports { return s.set(port, true) }

// Without returns the set less the port.
func (s Ports) Without(port int) Ports { return s.set(port, false) }

func (s Ports) set(port int, in bool) Ports {
	if port < 0 || port > PortMax || s.Has(port) == in {
		return s
	}
	page := new([pageWords]uint64)
	if old := s.pages[port/pagePorts]; old != nil {
		*page = *old
	}
	word, bit := port%pagePorts/64, uint64(1)<<(port%64)
	if in {
		page[word] |= bit
	} else {
		page[word] &^= bit
	}
	s.pages[port/pagePorts] = page
	return s
}

// put adds a port to the set itself. own has a bit for each page that no other set shares.
func (s *Ports) put(port int, own *uint16) {
	if port < 0 || port > PortMax {
		return
	}
	at := port / pagePorts
	if *own&(1<<at) == 0 {
		page := new([pageWords]uint64)
		if old := s.pages[at]; old != nil {
			*page = *old
		}
		s.pages[at] = page
		*own |= 1 << at
	}
	s.pages[at][port%pagePorts/64] |= 1 << (port % 64)
}

// Free finds a port in [low, high) that is not in the set, looking from start and round; -1 when there is none.
func (s *Ports) Free(low, high, start int) int {
	low, high = max(low, 0), min(high, PortMax+1)
	if low >= high {
		return -1
	}
	if start < low || start >= high {
		start = low
	}
	if p := s.free(start, high); p >= 0 {
		return p
	}
	return s.free(low, start)
}

func (s *Ports) free(low, high int) int {
	for p := low; p < high; {
		page := s.pages[p/pagePorts]
		if page == nil {
			return p
		}
		if free := ^page[p%pagePorts/64] >> (p % 64); free != 0 {
			if p += bits.TrailingZeros64(free); p < high {
				return p
			}
			return -1
		}
		p = p/64*64 + 64
	}
	return -1
}

// ParsePorts adds a list such as "22,80-90" to the set; parts that are no ports are left out.
func ParsePorts(s Ports, list string) Ports {
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		low, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil {
			continue
		}
		high := low
		if isRange {
			if high, err = strconv.Atoi(strings.TrimSpace(last)); err != nil {
				continue
			}
		}
		for p := max(low, 0); p <= min(high, PortMax); p++ {
			s = s.With(p)
		}
	}
	return s
}
