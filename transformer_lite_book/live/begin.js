/* Starts the figures called NAME that stand in a notebook's outputs. */

start(NAME, build);
