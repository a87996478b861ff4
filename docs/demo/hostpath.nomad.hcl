# The embedded CSI driver as a plugin job: no host paths for sockets and mounts, the agent computes socket and directories.
# It refuses calls without its password, which is an item of the variable of this job.
job "hostpath" {
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "raw_exec"

      config {
        command = "NOMAD_BINARY"
        args    = ["csi-hostpath", "-state-dir", "STATE_DIR", "-node-id", "${node.unique.name}"]
      }

      secret "storage" {
        provider = "nomad"
        path     = "nomad/jobs/hostpath"
      }

      env {
        CSI_PASSWORD = "${secret.storage.password}"
      }

      csi_plugin {
        id   = "hostpath"
        type = "monolith"
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
