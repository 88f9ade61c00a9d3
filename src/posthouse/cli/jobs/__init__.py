"""`posthouse job`: jobs, job queues, queue servers."""
