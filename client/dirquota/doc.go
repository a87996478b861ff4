// Package dirquota limits how many bytes a directory and all below it take.
//
// The file system has to count. Two kinds do:
//
//   - ext4 and xfs with project quotas (mounted with prjquota): the directory has a project id, which what is made in it
//     inherits, and the id has the limit;
//   - btrfs whose quotas are enabled (btrfs quota enable): the directory is a subvolume, whose qgroup has the limit.
//
// The directory itself says what it is: a project id of [firstProject] to [lastProject], or the root of a subvolume. Nothing
// else is stored, so a process that begins again finds what an earlier one has made. A project id is free when nothing is
// counted for it and it has no limit.
//
// A write beyond the limit fails with EDQUOT or ENOSPC. On ext4, processes with the capability CAP_SYS_RESOURCE are not limited.
//
// A rename from one such directory to another fails with EXDEV. [Adopt] prepares one between projects; from and to a
// subvolume, files have to be copied, which shares their blocks.
package dirquota
