package isolate

// The numbers of system calls, those of 64-bit programs first and then those of 32-bit programs; -1 stands for none.
var denied = [...]call{
	{[2]int32{40, 21}, sysAdmin},        // mount
	{[2]int32{39, 52}, sysAdmin},        // umount2
	{[2]int32{442, 442}, sysAdmin},      // mount_setattr
	{[2]int32{429, 429}, sysAdmin},      // move_mount
	{[2]int32{428, 428}, sysAdmin},      // open_tree
	{[2]int32{467, 467}, sysAdmin},      // open_tree_attr
	{[2]int32{430, 430}, sysAdmin},      // fsopen
	{[2]int32{431, 431}, sysAdmin},      // fsconfig
	{[2]int32{432, 432}, sysAdmin},      // fsmount
	{[2]int32{433, 433}, sysAdmin},      // fspick
	{[2]int32{41, 218}, sysAdmin},       // pivot_root
	{[2]int32{457, 457}, sysAdmin},      // statmount
	{[2]int32{458, 458}, sysAdmin},      // listmount
	{[2]int32{268, 375}, sysAdmin},      // setns
	{[2]int32{97, 337}, sysAdmin},       // unshare
	{[2]int32{60, 131}, sysAdmin},       // quotactl
	{[2]int32{443, 443}, sysAdmin},      // quotactl_fd
	{[2]int32{262, 367}, sysAdmin},      // fanotify_init
	{[2]int32{18, 249}, sysAdmin},       // lookup_dcookie
	{[2]int32{161, 74}, sysAdmin},       // sethostname
	{[2]int32{162, 121}, sysAdmin},      // setdomainname
	{[2]int32{224, 87}, sysAdmin},       // swapon
	{[2]int32{225, 115}, sysAdmin},      // swapoff
	{[2]int32{280, 386}, sysAdmin},      // bpf
	{[2]int32{241, 364}, sysAdmin},      // perf_event_open
	{[2]int32{106, 129}, sysModule},     // delete_module
	{[2]int32{105, 128}, sysModule},     // init_module
	{[2]int32{273, 379}, sysModule},     // finit_module
	{[2]int32{142, 88}, sysBoot},        // reboot
	{[2]int32{104, 347}, sysBoot},       // kexec_load
	{[2]int32{294, 401}, sysBoot},       // kexec_file_load
	{[2]int32{170, 79}, sysTime},        // settimeofday
	{[2]int32{112, 262}, sysTime},       // clock_settime
	{[2]int32{266, 372}, sysTime},       // clock_adjtime
	{[2]int32{-1, 404}, sysTime},        // clock_settime64
	{[2]int32{-1, 405}, sysTime},        // clock_adjtime64
	{[2]int32{89, 51}, sysPacct},        // acct
	{[2]int32{116, 103}, syslog},        // syslog
	{[2]int32{265, 371}, dacReadSearch}, // open_by_handle_at
	{[2]int32{58, 111}, sysTTYConfig},   // vhangup
	{[2]int32{272, 378}, sysPtrace},     // kcmp
	{[2]int32{217, 309}, never},         // add_key
	{[2]int32{218, 310}, never},         // request_key
	{[2]int32{219, 311}, never},         // keyctl
	{[2]int32{425, 425}, never},         // io_uring_setup
	{[2]int32{426, 426}, never},         // io_uring_enter
	{[2]int32{427, 427}, never},         // io_uring_register
	{[2]int32{282, 388}, never},         // userfaultfd
	{[2]int32{42, 169}, never},          // nfsservctl
	{[2]int32{-1, 86}, never},           // uselib
	{[2]int32{-1, 62}, never},           // ustat
	{[2]int32{-1, 135}, never},          // sysfs
	{[2]int32{-1, 149}, never},          // _sysctl
}

var (
	callClone   = [2]int32{220, 120}
	callClone3  = [2]int32{435, 435}
	callMknod   = [2]int32{-1, 14}
	callMknodat = [2]int32{33, 324}
	callSocket  = [2]int32{198, 281}
)

// The names that the kernel gives to the architectures of these programs.
var architectures = [2]uint32{0xc00000b7, 0x40000028}

const (
	sysSetns = 268
)
