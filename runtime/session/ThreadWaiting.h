// How long idle kernel threads burn a core before they sleep.
#pragma once

namespace opc {

/// For programs' main(), before anything else: lets the threads of libgomp (ours and oneDNN's) wait for microseconds,
/// not milliseconds, before they sleep. libgomp's default is made for machines of its own: where another process wants
/// a core, two threads that wait for each other by spinning lose a time slice at every kernel and run a hundred times
/// slower than one. The setting is read when the library is loaded, so the program starts itself again with it in its
/// environment; when GOMP_SPINCOUNT or OMP_WAIT_POLICY is set already, or that fails, nothing happens.
void boundThreadSpinning(char **argv);

} // namespace opc
