package isolate

// The numbers of system calls, those of 64-bit programs first and then those of 32-bit programs; -1 stands for none.
var denied = [...]call{
	{[2]int32{165, 21}, sysAdmin},       // mount
	{[2]int32{-1, 22}, sysAdmin},        // umount
	{[2]int32{166, 52}, sysAdmin},       // umount2
	{[2]int32{442, 442}, sysAdmin},      // mount_setattr
	{[2]int32{429, 429}, sysAdmin},      // move_mount
	{[2]int32{428, 428}, sysAdmin},      // open_tree
	{[2]int32{467, 467}, sysAdmin},      // open_tree_attr
	{[2]int32{430, 430}, sysAdmin},      // fsopen
	{[2]int32{431, 431}, sysAdmin},      // fsconfig
	{[2]int32{432, 432}, sysAdmin},      // fsmount
	{[2]int32{433, 433}, sysAdmin},      // fspick
	{[2]int32{155, 217}, sysAdmin},      // pivot_root
	{[2]int32{457, 457}, sysAdmin},      // statmount
	{[2]int32{458, 458}, sysAdmin},      // listmount
	{[2]int32{308, 346}, sysAdmin},      // setns
	{[2]int32{272, 310}, sysAdmin},      // unshare
	{[2]int32{179, 131}, sysAdmin},      // quotactl
	{[2]int32{443, 443}, sysAdmin},      // quotactl_fd
	{[2]int32{300, 338}, sysAdmin},      // fanotify_init
	{[2]int32{212, 253}, sysAdmin},      // lookup_dcookie
	{[2]int32{170, 74}, sysAdmin},       // sethostname
	{[2]int32{171, 121}, sysAdmin},      // setdomainname
	{[2]int32{167, 87}, sysAdmin},       // swapon
	{[2]int32{168, 115}, sysAdmin},      // swapoff
	{[2]int32{321, 357}, sysAdmin},      // bpf
	{[2]int32{298, 336}, sysAdmin},      // perf_event_open
	{[2]int32{-1, 166}, sysAdmin},       // vm86
	{[2]int32{-1, 113}, sysAdmin},       // vm86old
	{[2]int32{174, 127}, sysModule},     // create_module
	{[2]int32{176, 129}, sysModule},     // delete_module
	{[2]int32{175, 128}, sysModule},     // init_module
	{[2]int32{313, 350}, sysModule},     // finit_module
	{[2]int32{177, 130}, sysModule},     // get_kernel_syms
	{[2]int32{178, 167}, sysModule},     // query_module
	{[2]int32{169, 88}, sysBoot},        // reboot
	{[2]int32{246, 283}, sysBoot},       // kexec_load
	{[2]int32{320, -1}, sysBoot},        // kexec_file_load
	{[2]int32{173, 101}, sysRawIO},      // ioperm
	{[2]int32{172, 110}, sysRawIO},      // iopl
	{[2]int32{164, 79}, sysTime},        // settimeofday
	{[2]int32{-1, 25}, sysTime},         // stime
	{[2]int32{227, 264}, sysTime},       // clock_settime
	{[2]int32{305, 343}, sysTime},       // clock_adjtime
	{[2]int32{-1, 404}, sysTime},        // clock_settime64
	{[2]int32{-1, 405}, sysTime},        // clock_adjtime64
	{[2]int32{163, 51}, sysPacct},       // acct
	{[2]int32{103, 103}, syslog},        // syslog
	{[2]int32{304, 342}, dacReadSearch}, // open_by_handle_at
	{[2]int32{153, 111}, sysTTYConfig},  // vhangup
	{[2]int32{312, 349}, sysPtrace},     // kcmp
	{[2]int32{248, 286}, never},         // add_key
	{[2]int32{249, 287}, never},         // request_key
	{[2]int32{250, 288}, never},         // keyctl
	{[2]int32{425, 425}, never},         // io_uring_setup
	{[2]int32{426, 426}, never},         // io_uring_enter
	{[2]int32{427, 427}, never},         // io_uring_register
	{[2]int32{323, 374}, never},         // userfaultfd
	{[2]int32{180, 169}, never},         // nfsservctl
	{[2]int32{134, 86}, never},          // uselib
	{[2]int32{136, 62}, never},          // ustat
	{[2]int32{139, 135}, never},         // sysfs
	{[2]int32{156, 149}, never},         // _sysctl
}

var (
	callClone   = [2]int32{56, 120}
	callClone3  = [2]int32{435, 435}
	callMknod   = [2]int32{133, 14}
	callMknodat = [2]int32{259, 297}
	callSocket  = [2]int32{41, 359}
)

// The names that the kernel gives to the architectures of these programs.
var architectures = [2]uint32{0xc000003e, 0x40000003}

const (
	sysSetns = 308
)
