# A system job: one allocation on every node that fits, also on nodes that come later.
job "node-report" {
  type     = "system"
  priority = 80

  # Only nodes that fulfil all constraints are used.
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  group "report" {
    task "report" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do uptime; sleep 60; done"]
      }

      # What only the node knows is filled in there.
      env {
        NODE_NAME = "${node.unique.name}"
        CPU_ARCH  = "${attr.cpu.arch}"
      }

      # At most 2 files of 5 MiB for each of stdout and stderr.
      logs {
        max_files     = 2
        max_file_size = 5
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
