// The descriptors 0, 1 and 2 of a program.
// SPDX-License-Identifier: Apache-2.0
#include "StandardFiles.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace opc {

void openStandardFiles() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The wrong way round: reading from it fails, and so does writing to it. The lowest free number is this one.
    (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

} // namespace opc
