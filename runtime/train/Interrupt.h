// SIGINT, SIGTERM, SIGHUP, and SIGUSR1, which launchers of several processes pass on, as a flag that training looks at
// between steps and between batches of an evaluation. What tells a second wish from the echo of the first is here too.
#ifndef MT_RUNTIME_TRAIN_INTERRUPT_H
#define MT_RUNTIME_TRAIN_INTERRUPT_H

namespace mt::train {

/// From now on the signals set the flag (a hang-up only where it is not ignored, as under nohup), and pipes that nobody
/// reads any more are errors of writing instead of the program's end.
void catchInterrupts();
bool interrupted();

/// Whether a signal ends the program at once, when the first came `seconds` ago: an interrupt from the keyboard does,
/// but for what comes with the first, as when timeout signals both the program and its group. A request to terminate
/// never does: it is being followed.
bool endsAtOnce(int signal, double seconds);

} // namespace mt::train
#endif
