# A CSI plugin is a job whose tasks are the plugin. This one runs the driver that nomad carries
# inside: its volumes are directories and files of the host, so it fits a single machine, tests and
# machines that share a file system.
#
#   nomad job run -var nomad=/usr/local/bin/nomad csi-plugin.nomad.hcl
#   nomad plugin status hostpath
variable "nomad" {
  description = "the nomad program; a bare name is looked up in PATH"
  type        = string
  default     = "nomad"
}

variable "state_dir" {
  description = "where volumes are kept on the host"
  type        = string
  default     = "/var/lib/nomad-hostpath"
}

job "hostpath" {
  # Every node that may use its volumes needs one instance.
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "raw_exec"

      config {
        command = var.nomad
        args    = ["csi-hostpath", "-state-dir", var.state_dir, "-node-id", "${node.unique.name}"]
      }

      # This block makes the task a plugin. The agent makes the socket's directory and tells the
      # task by CSI_ENDPOINT; no paths of the host are needed.
      csi_plugin {
        id   = "hostpath"
        type = "monolith" # node and controller in one

        # How long the plugin may take until it answers for the first time.
        health_timeout = "30s"
      }

      # A plugin is always tried again: volumes wait for it.
      restart {
        attempts = 10
        interval = "5m"
        delay    = "5s"
        mode     = "delay"
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
