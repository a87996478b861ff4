package cluster

// stackRoom is what applying an entry, or serving a call, needs of its goroutine's stack at most.
const stackRoom = 24 << 10

// roomy gives a goroutine at its start the stack that it is going to need. One that grows on the way is copied four times
// over, each time with all the frames that it has by then.
//
//go:noinline
func roomy() byte {
	var room [stackRoom]byte
	return touch(&room)
}

//go:noinline
func touch(room *[stackRoom]byte) byte { return room[0] }
