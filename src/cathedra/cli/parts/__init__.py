"""Commands that run one part alone: API server, scheduler, controllers, node agent, driver, classic test driver."""
