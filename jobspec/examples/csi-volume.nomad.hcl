# A service with a CSI volume. The volume must exist, or be created while the job waits for it:
#
#   nomad job run csi-plugin.nomad.hcl
#   nomad volume create volume.hcl
#   nomad job run csi-volume.nomad.hcl
#   nomad volume status data
job "writer" {
  group "app" {
    # The volume "data" of the cluster gets the name "store" in this group.
    volume "store" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer" # one writer: a second job has to wait
      attachment_mode = "file-system"

      # These replace the mount options of the volume itself.
      # mount_options {
      #   mount_flags = ["nosuid"]
      # }
    }

    task "write" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do date >> store/log; sleep 5; done"]
      }

      # A relative destination lies under the task's directory, an absolute one is seen by the task
      # alone. A group's volume may be mounted into several of its tasks.
      volume_mount {
        volume      = "store"
        destination = "store"
      }

      # Time to finish writing before the task is killed and the volume unmounted.
      kill_timeout = "10s"

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
