// The program of the containers of tests.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"sleep"}
	}
	run(args[0], append(args[1:], "", "", ""))
}

func run(what string, args []string) {
	switch what {
	case "sleep":
		sleep()
	case "stubborn":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "exit":
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "print":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
	case "flood":
		for line := bytes.Repeat([]byte("x"), 1<<16); ; {
			_, _ = os.Stdout.Write(line)
		}
	case "family":
		child := exec.Command("/task", "sleep")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(child.Start())
		fmt.Println(child.Process.Pid)
		_ = child.Wait()
	case "leave": // a child that keeps the output open
		fmt.Println("before")
		child := exec.Command("/task", "sleep")
		child.Stdout = os.Stdout
		must(child.Start())
		os.Exit(3)
	case "copy":
		_, err := io.Copy(os.Stdout, os.Stdin)
		must(err)
	case "size":
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var size [4]uint16
			_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
			fmt.Println(size[0], size[1])
		}
	case "self": // what a process has from its container, and "stay" when it is to sleep then
		env := os.Environ()
		slices.Sort(env)
		groups, _ := os.Getgroups()
		wd, _ := os.Getwd()
		cgroup, err := os.ReadFile("/proc/self/cgroup")
		must(err)
		fmt.Println(strings.Join(env, "\n"), os.Getuid(), os.Getgid(), groups, wd, string(cgroup), "end")
		if args[0] != "" {
			sleep()
		}
	case "cat":
		text, err := os.ReadFile(args[0])
		must(err)
		_, _ = os.Stdout.Write(text)
	case "write": // a file, its text, and "stay" when it is to sleep then
		must(os.WriteFile(args[0], []byte(args[1]), 0o666))
		if args[2] != "" {
			sleep()
		}
	case "fill": // a file with at most so many MB, and sleep then
		f, err := os.Create(args[0])
		must(err)
		n, err := strconv.Atoi(args[1])
		must(err)
		for range n {
			if _, err := f.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		sleep()
	case "append": // to a file, again and again, whatever the signal
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		must(err)
		for {
			_, err := f.WriteString("x")
			must(err)
			time.Sleep(10 * time.Millisecond)
		}
	case "ids":
		groups, _ := os.Getgroups()
		wd, _ := os.Getwd()
		host, _ := os.Hostname()
		fmt.Println(os.Getuid(), os.Getgid(), groups, wd, host)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "mounts", "status", "limits":
		text, err := os.ReadFile(map[string]string{"mounts": "/proc/self/mountinfo", "status": "/proc/self/status", "limits": "/proc/self/limits"}[what])
		must(err)
		_, _ = os.Stdout.Write(text)
	case "eat":
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
		}
	case "count": // prints numbers: how many, and the pause in milliseconds
		n, _ := strconv.Atoi(args[0])
		ms, _ := strconv.Atoi(args[1])
		for i := range n {
			fmt.Println("line", i)
			time.Sleep(time.Duration(ms) * time.Millisecond)
		}
		sleep()
	case "serve":
		must(http.ListenAndServe(":"+args[0], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })))
	default:
		fmt.Fprintln(os.Stderr, "unknown:", what)
		os.Exit(2)
	}
}

// sleep ends by a signal, with the code of one: the kernel sends the first process of a container no signal that it does
// not handle.
func sleep() {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	s := <-got
	os.Exit(128 + int(s.(syscall.Signal)))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
