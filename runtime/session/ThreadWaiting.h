// How long idle kernel threads burn a core before they sleep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc {

/// For programs' main(), before anything else: where other processes want the cores now, lets the threads of libgomp
/// (ours and oneDNN's) sleep at once, or after microseconds, instead of after milliseconds. libgomp's default is right
/// for a machine of its own, where waking a thread costs more than waiting; but where another process wants a core, two
/// threads that wait for each other by spinning lose a time slice at every kernel and run up to a hundred times slower
/// than one. libgomp reads the setting when it is loaded, so the program starts itself again with it in its
/// environment. Nothing happens on an idle machine, when GOMP_SPINCOUNT or OMP_WAIT_POLICY is set already, or when that
/// fails. Results never depend on it.
void boundThreadSpinning(char **argv);

} // namespace opc
