package kit

import (
	"bufio"
	"bytes"
	"debug/elf"
	bits "encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Clock is the wall clock of one agent, which can be set without touching the machine's. Its monotonic clock, its
// supervising processes and its tasks keep the machine's, as they do when a machine's clock is set.
//
// A process asks the code that the kernel maps into it (vDSO) for the time. Before the agent's first instruction that code
// is exchanged for some that asks the kernel and adds a number of seconds, which may be changed while it runs.
type Clock struct {
	agent  *Agent
	offset time.Duration
	// at is where the number of seconds is in the process.
	at int64
}

// OwnClock gives the agent a clock of its own from its next start on.
func (a *Agent) OwnClock() *Clock {
	a.tb.Helper()
	if runtime.GOARCH != "amd64" {
		a.tb.Skip("the agent's clock cannot be exchanged on " + runtime.GOARCH)
	}
	a.clock = &Clock{agent: a}
	return a.clock
}

// Set sets the clock so far from the machine's, in whole seconds: of the process that runs, and of those started later.
func (c *Clock) Set(offset time.Duration) {
	c.agent.tb.Helper()
	c.offset = offset.Truncate(time.Second)
	select {
	case <-c.agent.ended:
		return
	default:
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.agent.PID()), os.O_RDWR, 0)
	if err != nil {
		c.agent.tb.Fatal(err)
	}
	defer memory.Close()
	if err := c.write(memory); err != nil {
		c.agent.tb.Fatal(err)
	}
}

func (c *Clock) write(memory io.WriterAt) error {
	_, err := memory.WriteAt(bits.LittleEndian.AppendUint64(nil, uint64(c.offset/time.Second)), c.at)
	return err
}

// shifted asks the kernel for the time and adds the eight bytes that follow to the seconds of the wall clock.
var shifted = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME is 0)
	0x75, 0x0a, // jne to ret
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov rcx, [rip+6]
	0x48, 0x01, 0x0e, // add [rsi], rcx (seconds of the timespec)
	0xc3,       // ret
	0xcc, 0xcc, // the number is aligned, so that it is written at once
}

// begin starts the agent's process and exchanges its clock before its first instruction.
func (c *Clock) begin(start func() error) error {
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	if err := start(); err != nil {
		return err
	}
	pid := c.agent.PID()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for the agent to be executed: %w", err)
	}
	if err := c.exchange(pid); err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}

func (c *Clock) exchange(pid int) error {
	first, last, err := vdso(pid)
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	code := make([]byte, last-first)
	if _, err := memory.ReadAt(code, first); err != nil {
		return fmt.Errorf("read vDSO: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return fmt.Errorf("parse vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("symbols of vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name != "__vdso_clock_gettime" {
			continue
		}
		at := first + int64(s.Value)
		if s.Size < uint64(len(shifted))+8 || (at+int64(len(shifted)))%8 != 0 {
			return fmt.Errorf("no room in the %d bytes of %s", s.Size, s.Name)
		}
		if _, err := memory.WriteAt(shifted, at); err != nil {
			return fmt.Errorf("write vDSO: %w", err)
		}
		c.at = at + int64(len(shifted))
		return c.write(memory)
	}
	return fmt.Errorf("no clock_gettime among %d symbols of vDSO", len(symbols))
}

// vdso is where that code begins and ends in a process.
func vdso(pid int) (first, last int64, err error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if strings.HasSuffix(lines.Text(), "[vdso]") {
			_, err := fmt.Sscanf(lines.Text(), "%x-%x", &first, &last)
			return first, last, err
		}
	}
	return 0, 0, fmt.Errorf("process %d has no vDSO", pid)
}

// Seen fails the test unless a time that the agent reported is of its clock and not of the machine's.
func (c *Clock) Seen(tb testing.TB, told time.Time) {
	tb.Helper()
	if off := time.Until(told) - c.offset; off.Abs() > time.Minute {
		tb.Fatalf("the agent's clock is %v from the machine's, want %v", time.Until(told), c.offset)
	}
}
